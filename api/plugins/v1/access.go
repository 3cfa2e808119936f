//nolint:modernize // omitempty, too: that is how the documents and other tools tell optional fields
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// An AuthorizationPlugin has a module say whether requests are allowed. It is
// asked after the server's own authorizers had no opinion; members of
// system:masters are never shown to it.
type AuthorizationPlugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   AuthorizationPluginSpec   `json:"spec,omitempty,omitzero"`
	Status AuthorizationPluginStatus `json:"status,omitempty,omitzero"`
}

// AuthorizationPluginSpec says which module is asked, and about whom.
type AuthorizationPluginSpec struct {
	Common `json:",inline"`

	// Order sorts the plugins, lower first, then by name. Plugins with a
	// negative order are asked before RBAC, so that they can deny what a role
	// allows.
	Order int32 `json:"order,omitempty"`
	// Users and Groups bound who is asked about; empty is everybody. A name
	// may end in *.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// CacheSeconds is how long an answer is good for the same question: 0 by
	// default, 300 at most.
	CacheSeconds int32 `json:"cacheSeconds,omitempty"`
}

// AuthorizationPluginStatus says how the plugin does.
type AuthorizationPluginStatus struct {
	PluginStatus `json:",inline"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationPluginList is a list of AuthorizationPlugins.
type AuthorizationPluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []AuthorizationPlugin `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// An AuthenticationPlugin has a module tell whose a bearer token is. It is
// shown tokens that the server does not know, and may name no user or group
// that begins with "system:".
type AuthenticationPlugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	Spec   AuthenticationPluginSpec   `json:"spec,omitempty,omitzero"`
	Status AuthenticationPluginStatus `json:"status,omitempty,omitzero"`
}

// AuthenticationPluginSpec says which module is asked, and about which tokens.
type AuthenticationPluginSpec struct {
	Common `json:",inline"`

	// Order sorts the plugins, lower first, then by name.
	Order int32 `json:"order,omitempty"`
	// TokenPrefix is what a token begins with to be shown to the module.
	TokenPrefix string `json:"tokenPrefix,omitempty"`
	// CacheSeconds is how long a good answer is remembered: 10 by default, 300
	// at most.
	CacheSeconds *int32 `json:"cacheSeconds,omitempty"`
}

// AuthenticationPluginStatus says how the plugin does.
type AuthenticationPluginStatus struct {
	PluginStatus `json:",inline"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthenticationPluginList is a list of AuthenticationPlugins.
type AuthenticationPluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	Items []AuthenticationPlugin `json:"items"`
}
