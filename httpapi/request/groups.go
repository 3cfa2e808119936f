package request

import "strings"

// The groups that mean something to the server itself.
const (
	// Masters may do everything.
	Masters = "system:masters"
	// Authenticated is everybody who showed a good credential.
	Authenticated = "system:authenticated"
	// Nodes are the node agents.
	Nodes = "system:nodes"
	// Bootstrappers are the holders of join tokens.
	Bootstrappers = "system:bootstrappers"
	// ServiceAccounts are all service accounts.
	ServiceAccounts = "system:serviceaccounts"
)

// NodeUserPrefix comes before a node's name in the user name of its agent.
const NodeUserPrefix = "system:node:"

// NodeName returns the name of the node whose agent the user is.
func (u *User) NodeName() (string, bool) {
	name, ok := strings.CutPrefix(u.Name, NodeUserPrefix)
	return name, ok && name != "" && u.InGroup(Nodes)
}

// serviceAccountPrefix comes before the namespace and the name of a service
// account in its user name.
const serviceAccountPrefix = "system:serviceaccount:"

// ServiceAccountUser returns the user name of a service account.
func ServiceAccountUser(namespace, name string) string {
	return serviceAccountPrefix + namespace + ":" + name
}

// ServiceAccountOf returns the service account that a user name is of.
func ServiceAccountOf(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, serviceAccountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, ":")
}
