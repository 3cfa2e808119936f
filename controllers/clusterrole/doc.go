// Package clusterrole is the loop that gathers rules: a ClusterRole with an
// aggregation rule gets the rules of all ClusterRoles that the rule selects.
//
// The rules are written into the role, not gathered when somebody is authorized:
// what a role allows is what kubectl shows of it, and a look-up stays a look-up.
package clusterrole
