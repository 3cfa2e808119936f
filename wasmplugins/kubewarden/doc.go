// Package kubewarden runs policies that were built for Kubewarden, unmodified:
// it is the adapter between the engine and their ABIs.
//
// A policy of the mode kubewarden-wapc stays in memory and is called over the
// waPC protocol: the host calls the export __guest_call with the lengths of an
// operation's name and of a payload; the guest fetches both with
// wapc.__guest_request and answers with wapc.__guest_response or
// wapc.__guest_error. The operations are protocol_version, validate_settings
// and validate.
//
// A policy of the mode wasi is a command, which is run afresh for each request
// with the argument "validate" or "validate-settings"; it reads the payload
// from its standard input and writes its answer to its standard output.
//
// Both may call the host back. Of Kubewarden's functions, tracing is free, and
// those that read the cluster become capabilities; what needs the network or a
// trust store is answered with an error.
//
// Kubewarden validates and mutates in one go. Here a policy that mutates is
// asked in the phase mutate, and in the phase validate it may only allow what
// needs no change of it any more.
package kubewarden
