package controlplane

import (
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/noderestriction"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins"
)

// admissionChain is the order of admission: what is built in first, so that
// plugins see complete objects, and the plugins of users last.
func admissionChain(store storage.Store, host *wasmplugins.Host) *admission.Chain {
	return &admission.Chain{
		Mutators: append(httpapi.BuiltinMutators(store), host.Mutator()),
		Validators: []admission.Validator{
			&noderestriction.Validator{Pods: lookup{store: store}},
			host.Validator(),
		},
	}
}
