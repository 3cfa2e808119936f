// What every plugin exports.
import { configureAt } from "./request"

export function proa_abi(): i32 { return 0x00010000 }

export function proa_alloc(n: i32): usize { return n < 0 ? 0 : heap.alloc(n) }

export function proa_configure(p: usize, n: usize): i64 { return configureAt(p, n) }
