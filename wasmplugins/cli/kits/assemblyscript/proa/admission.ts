// What a plugin for admission exports: export * from this file.
import { admitAt } from "./request"

export * from "./base"

export function proa_admit(p: usize, n: usize): i64 { return admitAt(p, n) }
