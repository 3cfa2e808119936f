package library

import (
	"context"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// A puller fetches modules from registries.
type puller struct{}

func newPuller(*Config) *puller { return &puller{} }

func (p *puller) close() {}

func (l *Library) fetchImage(context.Context, *pluginsv1.WasmModule, *module, bool) ([]byte, *Problem) {
	return nil, problemf(ReasonPullFailed, "images cannot be pulled yet").finally()
}
