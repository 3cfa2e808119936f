// What a plugin for the scheduler exports: export * from this file.
import { filterAt, nodesAt, pointsNow, prepareAt, scoreAt } from "./schedule"

export * from "./base"

export function proa_points(): i64 { return pointsNow() }

export function proa_table(n: i32): usize { return heap.alloc(n) }

export function proa_prepare(p: usize, n: usize): i64 { return prepareAt(p, n) }

export function proa_nodes(p: usize, stride: usize, count: i32, gen: i32): i32 {
  nodesAt(p, stride)
  return 0
}

export function proa_filter(out: usize, count: i32): i32 {
  filterAt(out, count)
  return 0
}

export function proa_score(out: usize, count: i32): i32 {
  scoreAt(out, count)
  return 0
}
