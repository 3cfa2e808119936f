// Package engine runs WebAssembly guests under limits: it is the one engine
// under all extension points, which are small adapters over it.
//
// The way of a module:
//
//	code, err := eng.Load(ctx, wasm)            // validate, meter, compile; slow, never in a request
//	prog, err := eng.Start(ctx, code, config)   // link, make one instance, warm it, take its snapshot
//	usage, err := prog.Do(ctx, call, func(i *engine.Instance) error { ... })
//	prog.Close(); code.Close()
//
// What a guest may do is bounded on every side. Time and work are metered by
// code that package fuel puts into the module; memory by the allocator of this
// package; the depth of calls by a counter; the output by quotas. A guest has
// no file, socket, argument or environment variable, its randomness is
// deterministic and its wall clock stands still at the request; it can import
// the WASI functions, of which most answer ENOSYS, and what the adapter offers.
//
// Each call begins in the same state: the snapshot taken after the program was
// warmed. So a guest cannot carry anything from one request into another, and
// an instance is good again after a trap.
//
// Every failure is an *Error with a Reason, and names the plugin, the limit
// and the figure.
package engine
