package httpapi

import (
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/builtin"
	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/storage"
)

// BuiltinMutators returns the server's own admission plugins in the order in
// which they are called, for the beginning of a chain: refusals first. The plugin
// that restricts nodes is a validator of its own, see noderestriction.
func BuiltinMutators(store storage.Store) []admission.Mutator {
	return []admission.Mutator{
		builtin.NamespaceLifecycle{Namespaces: registry.Namespaces{Store: store}, Immortal: systemNamespaces()},
		builtin.ServiceAccount{},
		builtin.DefaultTolerationSeconds{},
	}
}
