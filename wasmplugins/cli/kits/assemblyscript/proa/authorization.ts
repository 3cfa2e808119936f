// What a plugin for the point "authorize" exports: export * from this file, and
// register the function with onCall.
import { callAt } from "./request"

export * from "./base"

export function proa_authorize(p: usize, n: usize): i64 { return callAt(p, n) }
