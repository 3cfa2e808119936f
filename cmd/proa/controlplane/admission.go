package controlplane

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/noderestriction"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/storage"
)

// admissionChain is the order of admission: what is built in first, so that
// policies see complete objects, and the policies of users last.
func admissionChain(store storage.Store, escalation admission.Validator, policies *policy.Chain) *admission.Chain {
	return &admission.Chain{
		Mutators: append(httpapi.BuiltinMutators(store), policies.Mutator()),
		Validators: []admission.Validator{
			&noderestriction.Validator{Pods: lookup{store: store}},
			escalation,
			policies.Validator(),
		},
	}
}

// recordedPath is where the latest writes are read, as JSON lines, for "proa
// plugin replay".
const recordedPath = "/proa/v1/recorded-requests"

// BreakGlassFile is the file in the data directory that, as long as it is
// there, keeps all policies of users from being called.
const BreakGlassFile = "break-glass"

// breakGlass is the switch that turns all policies off, whether by the
// server's configuration or by a file: neither needs the API.
type breakGlass struct {
	file   string
	always bool
	log    zerolog.Logger

	checked atomic.Int64 // when the file was looked for, in Unix nanoseconds
	found   atomic.Bool
}

func newBreakGlass(config Config) *breakGlass {
	b := &breakGlass{file: filepath.Join(config.DataDir, BreakGlassFile), always: config.BreakGlass, log: component(config.Log, "admission")}
	if b.always {
		b.log.Warn().Msg("admission policies are off, by configuration")
	}
	return b
}

// on reports whether policies are off. It looks for the file once a second.
func (b *breakGlass) on() bool {
	if b.always {
		return true
	}
	now, last := time.Now().UnixNano(), b.checked.Load()
	if now-last < int64(time.Second) || !b.checked.CompareAndSwap(last, now) {
		return b.found.Load()
	}
	_, err := os.Stat(b.file)
	found := err == nil
	if b.found.Swap(found) != found {
		if found {
			b.log.Warn().Str("file", b.file).Msg("admission policies are off, by file")
		} else {
			b.log.Info().Msg("admission policies are on again")
		}
	}
	return found
}
