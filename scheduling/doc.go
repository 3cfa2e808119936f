// Package scheduling is the scheduler: it watches pods and nodes, chooses a
// node for each pod that has none, and binds it.
package scheduling
