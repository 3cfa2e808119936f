// Package celpolicy makes policies of ValidatingAdmissionPolicies,
// MutatingAdmissionPolicies and their bindings: rules in CEL that run in the
// server itself.
//
// Each pair of a policy and a binding is one policy of the chain. A Source
// compiles a policy once, whatever its bindings, and keeps what it has compiled
// until the object changes. What happens to a write then is, in order: does it
// match the policy and the binding, which parameters are there, do the match
// conditions hold, and for each parameter the validations or the mutations,
// within upstream's limits of cost.
//
// Conditions are the match conditions of others: of webhooks and plugins.
package celpolicy
