// Package simulated is a node agent for many nodes without containers: pods on
// them go through the states that a real node gives them.
//
// It is for trying out schedulers, operators and dashboards at a size that no
// machine could run. Thousands of nodes live in one process: they share one
// watch of pods, one queue and a few workers, and their leases are renewed one
// after the other, spread over the interval.
//
// # What a pod does
//
// A pod that is bound to a simulated node becomes Pending with its containers
// being created, runs its init containers one after the other, each for the
// start latency, and is then Running and ready, with an address of its own. It
// runs until it is deleted, unless annotations say otherwise:
//
//	simulated.proa.io/run-seconds: "2.5"   its containers exit after that time
//	simulated.proa.io/exit-code: "1"       with this code, default 0
//	simulated.proa.io/start-seconds: "3"   its own start latency
//
// What happens then follows restartPolicy: Never and OnFailure end in Succeeded
// or Failed, others restart, with the back-off of a real node. A pod that is
// deleted stops, shows its containers as terminated, and goes. A node refuses
// pods that it has no room for, as a real one does (OutOfcpu, OutOfmemory,
// OutOfpods).
//
// The state machine (step) and the status that it leads to (status) are pure.
package simulated
