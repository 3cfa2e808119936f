// Package rego runs policies that Open Policy Agent compiled to WebAssembly:
// it is the adapter between the engine and OPA's ABI, versions 1.0 to 1.3.
//
// A policy is judged by its entrypoint 0. In the mode opa, its input is
// {"request": ...}, its data are the settings, and its result is an
// AdmissionReview with a response, a response alone, true or false, or a set of
// reasons to refuse. In the mode gatekeeper, its input is
// {"parameters": settings, "review": ...}, and its result is a set of
// violations. The mode is what the section of Kubewarden's metadata says; of a
// module without one, an entrypoint named violation means gatekeeper.
//
// If the metadata names contextAwareResources, the policy finds them in its
// data: in the mode opa as kubernetes.<resource>[.<namespace>].<name>, in the
// mode gatekeeper as inventory.
//
// Functions that are not compiled into a module are the host's. Those without a
// network are offered; a policy that uses another is refused when it starts.
package rego
