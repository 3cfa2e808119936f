// The kit for writing plugins of Proa in AssemblyScript.
//
// A plugin is one file, index.ts. It registers its functions, and exports those
// that the server calls:
//
//	import { Answer, Request, allow, deny, onAdmit } from "./proa"
//	export * from "./proa/admission"
//
//	onAdmit((r: Request): Answer => {
//	  if (r.object.get("metadata", "labels", "team").missing()) return deny("the label team is missing")
//	  return allow()
//	})
//
// Build it with "proa plugin build", or with the compiler alone:
//
//	asc index.ts -O3 --noAssert --runtime stub --use abort= --enable bulk-memory -o plugin.wasm
//
// Objects are read where they lie: a Value is a place in the request's JSON, and
// get walks it without decoding anything else. The server sends valid JSON; on
// broken JSON values are missing, nothing more.
//
// Memory is never given back: every call begins in the state that the plugin was
// in after it was configured, so what a call has taken or stored is gone in the
// next. There is no file, network, or environment.

export { Text } from "./text"
export { Iter, Value, parse } from "./value"
export { Json, Patch, pointer } from "./patch"
export { Answer, Request, allow, change, deny, onAdmit, onCall, onConfigure } from "./request"
export { Reply, call, canI, config, debug, error, http, info, kubeGet, kubeList, now, random, warn } from "./host"
export { CPU, Key, MEMORY, Node, PODS, Plan, STORAGE, Taint, onFilter, onPrepare, onScore } from "./schedule"
