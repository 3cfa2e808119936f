// Package schedule lets modules take part in scheduling: SchedulerPlugins
// become plugins of scheduling/framework, which come and go at run time.
//
// A Point starts the guests (it is what package runner calls) and is a
// scheduling.Extra:
//
//	point := schedule.New(schedule.Config{Engine: engine, Runner: runnerConfig})
//	go point.Run(ctx)
//	scheduling.New(scheduling.Config{Extra: point, ...})
//
// # One cycle, one instance
//
// A guest of the native ABI is called once for a pod and once each for
// PreScore, Filter and Score, for all nodes together, in one engine.Session:
// one instance from PreFilter to Score, which begins in its first state.
//
//   - table.go keeps all nodes as the ABI's records, in an engine.Window that
//     every guest sees in its own memory. Only nodes that have changed since
//     the last cycle are written, once for all guests;
//   - nodes.go lends the table to one cycle at a time, and makes a larger one
//     when nodes no longer fit;
//   - guest.go is a module that runs, native.go the plugin around it;
//   - placed.go are the points behind Score, where a pod has its node: calls of
//     their own, with JSON;
//   - foreign.go are guests of kube-scheduler-wasm-extension.
//
// # Failures
//
// A call that ends without an answer is the plugin's failure, not the pod's:
// with failurePolicy Fail the attempt ends and its event names plugin, reason
// and limit; the pod is tried again after its back-off. With Ignore the attempt
// goes on as if the plugin were not there.
package schedule
