// What a plugin for the point "convert" exports: export * from this file, and
// register the function with onCall.
import { callAt } from "./request"

export * from "./base"

export function proa_convert(p: usize, n: usize): i64 { return callAt(p, n) }
