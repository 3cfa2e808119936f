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
