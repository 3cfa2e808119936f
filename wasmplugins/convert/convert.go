// Package convert is the extension point of conversion: modules that convert
// the objects of custom resources between versions, in place of conversion
// webhooks.
package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/runner"
)

type handle = runner.Handle[*pluginsv1.ConversionPlugin, *native.Plugin]

// A Point is all ConversionPlugins.
type Point struct {
	*runner.Runner[*pluginsv1.ConversionPlugin, *native.Plugin]

	by atomic.Pointer[map[string]*handle] // by definition
}

// New returns the point, which does nothing before Run.
func New(c runner.Config, e *engine.Engine) *Point {
	p := &Point{}
	p.by.Store(&map[string]*handle{})
	p.Runner = runner.New(c, runner.Point[*pluginsv1.ConversionPlugin, *native.Plugin]{
		Kind: "ConversionPlugin", Changed: p.changed,
		Start: func(ctx context.Context, _ *pluginsv1.ConversionPlugin, code runner.Code, c runner.GuestConfig) (*native.Plugin, error) {
			if code.ABI != abi.Native {
				return nil, fmt.Errorf("%w: a module with the ABI %s cannot convert", runner.ErrABI, cmp.Or(code.ABI, "unknown"))
			}
			return native.Start(ctx, e, code.Code, native.Config{
				Name: c.Name, Export: abi.ExportConvert, Limits: c.Limits, Settings: c.Settings, Capability: c.Capability, Log: c.Log,
			})
		},
	})
	return p
}

// changed finds the plugins of definitions; of two for one, the first by name
// counts.
func (p *Point) changed() {
	by := map[string]*handle{}
	for _, h := range p.Handles() {
		crd := h.Object().Spec.CustomResourceDefinition
		if by[crd] == nil {
			by[crd] = h
		}
	}
	p.by.Store(&by)
}

// Has reports whether there is a plugin for a definition.
func (p *Point) Has(definition string) bool { return (*p.by.Load())[definition] != nil }

// ErrNoPlugin is returned for definitions that no plugin is for.
var ErrNoPlugin = errors.New("no ConversionPlugin")

// Convert converts the objects of a definition, which are JSON, to a version,
// as group/version. The result has as many, in the same order. An object cannot
// be left out, so failurePolicy has no meaning here.
func (p *Point) Convert(ctx context.Context, definition string, objects [][]byte, apiVersion string) ([][]byte, error) {
	h := (*p.by.Load())[definition]
	if h == nil {
		return nil, fmt.Errorf("convert %s to %s: %w", definition, apiVersion, ErrNoPlugin)
	}
	input, err := abi.ConvertInput(apiVersion, objects)
	if err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", definition, apiVersion, err)
	}
	var out [][]byte
	var refused error
	_, err = h.Use(ctx, func(g *native.Plugin) (engine.Usage, error) {
		return g.Ask(ctx, engine.Call{}, input, func(reply []byte) error {
			var bad error
			if out, bad = abi.ParseConvertReply(reply, apiVersion, objects); errors.Is(bad, abi.ErrConversion) {
				refused, bad = bad, nil // an answer, if no good one
			}
			return bad
		})
	})
	if err = errors.Join(err, refused); err != nil {
		return nil, fmt.Errorf("conversion plugin %q for %s: %w", h.Name(), definition, err)
	}
	return out, nil
}
