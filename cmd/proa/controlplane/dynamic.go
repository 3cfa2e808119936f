package controlplane

import (
	"context"

	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/dynamic/crd"
	"github.com/proa-project/proa/wasmplugins"
)

// Kinds returns the table of the kinds that appear at run time. Whoever has
// virtual resources registers them there, under a name of its own, at any time:
//
//	cp.Kinds().SetVirtual("plugins.proa.io", []dynamic.Virtual{{Resource: row, Provider: p}})
func (cp *ControlPlane) Kinds() *dynamic.Table { return cp.kinds }

// Converters returns who converts custom resources between their versions.
// Whoever can do so says so there, at any time:
//
//	cp.Converters().Set("crontabs.stable.example.com", converter)
func (cp *ControlPlane) Converters() *crd.Converters { return &cp.custom.converters }

// custom is what serves the kinds that users define.
type custom struct {
	converters crd.Converters
	controller *crd.Controller
}

// start makes the controller, and runs it for as long as the control plane
// does.
func (c *custom) start(cp *ControlPlane, config Config, server *httpapi.Server, host *wasmplugins.Host) {
	c.controller = crd.New(crd.Config{
		Store: cp.store, Table: cp.kinds, Server: server, Converters: &c.converters, Fallback: host.Conversion,
		Log: component(config.Log, "definitions"),
	})
	cp.group.Go(func() error { return ignoreCanceled(c.controller.Run(cp.ctx)) })
}

// ready is for /readyz, which nobody asks before start.
func (c *custom) ready(context.Context) error { return c.controller.Ready() }
