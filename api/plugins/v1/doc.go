// +k8s:deepcopy-gen=package

// Package v1 is the API group plugins.proa.io/v1: WebAssembly modules kept in
// the API and the points of Proa that they extend.
package v1
