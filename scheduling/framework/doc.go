// Package framework is the pure part of the scheduler: what a node offers, what
// a pod asks for, and the choice of a node by a profile of plugins.
//
// Nothing here has a client, a clock or a goroutine. Schedule takes a Snapshot,
// a pod and a Profile, and returns a node or a Diagnosis.
//
// # Whole columns, not single nodes
//
// A plugin sees all the nodes in one call: a FilterPlugin gets the indices of
// the nodes that are still in the running and writes a Code for each that it
// vetoes; a ScorePlugin gets the feasible indices and fills a slice of scores.
// That keeps the inner loops free of interface calls, and it lets a plugin that
// lives behind a boundary (a WebAssembly module) cost two calls for a pod,
// whatever the number of nodes.
//
// A node keeps its index in the Snapshot from when it is first set until it is
// removed, so a plugin may keep a table of its own beside the snapshot and
// bring only those rows up to date whose NodeInfo.Generation has moved.
//
// # Extension points
//
// In the order in which a pod passes them:
//
//	PreEnqueue   may keep a pod out of the queue (scheduling gates)
//	PreFilter    prepares state, may reject the pod, restrict the nodes, or skip the next
//	Filter       vetoes nodes
//	PostFilter   after no node is left: may nominate a node
//	PreScore     prepares state, or skips the next
//	Score        scores the feasible nodes
//	NormalizeScore brings a plugin's scores to 0..MaxScore
//	Reserve      books what the choice needs; Unreserve takes it back
//	Permit       lets the pod go on, makes it wait, or rejects it
//	PreBind, Bind, PostBind
//
// A plugin implements Plugin and the interfaces of the points that it serves;
// NewProfile sorts a list of plugins, which stands in call order, into points.
package framework
