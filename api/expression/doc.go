// Package expression compiles the CEL expressions that are stored in the API:
// those of admission policies, and the match conditions of webhooks and plugins.
//
// The language is that of Kubernetes: its libraries, its cost limits, its names
// of variables, its error texts. An Env is made for one policy, since variables
// that a policy declares are known to the expressions after them:
//
//	env := expression.New(expression.Options{Params: true})
//	err := env.Declare("replicas", "object.spec.replicas")
//	p, err := env.Compile("variables.replicas < 10", expression.Condition)
//
// Evaluating a Program is the caller's: it gives it an activation.
package expression
