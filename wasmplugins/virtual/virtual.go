// Package virtual is the extension point of virtual APIs: groups of the API
// that modules answer for, in place of aggregated API servers.
package virtual

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/runner"
)

type handle = runner.Handle[*pluginsv1.VirtualAPI, *native.Plugin]

// Table is where virtual resources are announced; *dynamic.Table is one.
type Table interface {
	// SetVirtual replaces the resources of an owner.
	SetVirtual(owner string, list []dynamic.Virtual) error
}

// Config configures a Point.
type Config struct {
	Runner runner.Config
	Engine *engine.Engine
	Table  Table
}

// A Point is all VirtualAPIs.
type Point struct {
	*runner.Runner[*pluginsv1.VirtualAPI, *native.Plugin]

	c         Config
	mu        sync.Mutex // guards the field below, and is held while resources are announced
	announced map[string]announced
}

// announced is what of an API the table has.
type announced struct {
	handle     *handle
	generation int64
}

// New returns the point, which does nothing before Run.
func New(c Config) *Point {
	p := &Point{c: c, announced: map[string]announced{}}
	p.Runner = runner.New(c.Runner, runner.Point[*pluginsv1.VirtualAPI, *native.Plugin]{
		Kind: "VirtualAPI", Changed: p.changed,
		Start: func(ctx context.Context, _ *pluginsv1.VirtualAPI, code runner.Code, g runner.GuestConfig) (*native.Plugin, error) {
			if code.ABI != abi.Native {
				return nil, fmt.Errorf("%w: a module with the ABI %s cannot serve an API", runner.ErrABI, cmp.Or(code.ABI, "unknown"))
			}
			return native.Start(ctx, c.Engine, code.Code, native.Config{
				Name: g.Name, Export: abi.ExportServe, Limits: g.Limits, Settings: g.Settings, Capability: g.Capability, Log: g.Log,
			})
		},
	})
	return p
}

// changed announces the APIs whose objects are new or changed, and withdraws
// those that are gone. An API whose module does not run is there, and answers
// that it is not available.
func (p *Point) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]bool{}
	for _, h := range p.Handles() {
		o := h.Object()
		seen[o.Name] = true
		if a := p.announced[o.Name]; a.handle == h && a.generation == o.Generation {
			continue
		}
		var list []dynamic.Virtual
		for i := range o.Spec.Resources {
			list = append(list, p.resource(h, &o.Spec, &o.Spec.Resources[i]))
		}
		if err := p.c.Table.SetVirtual(owner(o.Name), list); err != nil {
			p.c.Runner.Log.Error().Err(err).Str("plugin", o.Name).Msg("virtual API cannot be served")
			p.c.Runner.Events.Event(o, corev1.EventTypeWarning, "NotServed", err.Error())
			continue
		}
		p.announced[o.Name] = announced{h, o.Generation}
	}
	for name := range p.announced {
		if !seen[name] {
			delete(p.announced, name)
			if err := p.c.Table.SetVirtual(owner(name), nil); err != nil {
				p.c.Runner.Log.Error().Err(err).Str("plugin", name).Msg("virtual API cannot be withdrawn")
			}
		}
	}
}

func owner(name string) string { return "VirtualAPI " + name }

// resource describes one resource.
func (p *Point) resource(h *handle, spec *pluginsv1.VirtualAPISpec, r *pluginsv1.VirtualResource) dynamic.Virtual {
	verbs := slices.Clone(r.Verbs)
	if slices.Contains(verbs, "update") && slices.Contains(verbs, "get") {
		verbs = append(verbs, "patch")
	}
	slices.Sort(verbs)
	v := dynamic.Virtual{
		Resource: &api.Resource{
			Group: spec.Group, Version: spec.Version, Kind: r.Kind, Plural: r.Plural, Singular: cmp.Or(r.Singular, strings.ToLower(r.Kind)),
			Namespaced: r.Namespaced, ShortNames: r.ShortNames, Verbs: verbs,
		},
		Provider: &provider{h: h, resource: r.Plural, gvk: spec.Group + "/" + spec.Version, kind: r.Kind},
		Poll:     time.Duration(r.PollSeconds) * time.Second,
	}
	for _, c := range r.Columns {
		v.Columns = append(v.Columns, dynamic.Column{Name: c.Name, Type: c.Type, JSONPath: c.JSONPath})
	}
	return v
}
