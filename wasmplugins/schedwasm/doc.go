// Package schedwasm runs guests of kube-scheduler-wasm-extension as they are:
// scheduler plugins whose functions have no parameters and fetch what they need
// from the host, pods and nodes as protobuf.
//
// Such a guest is called once for each node. It keeps what it has fetched, so
// one instance (a Cycle) serves all calls for a pod: those of the scheduling
// cycle, and, if the guest has any of Reserve to PostBind, those of its binding
// too, which run on other goroutines. A Cycle that was given up meanwhile,
// because there are too many or the guest is replaced, is made up for by a new
// one whose PreFilter is called first.
package schedwasm
