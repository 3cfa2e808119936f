package controlplane

import (
	"github.com/proa-project/proa/httpapi/dynamic"
)

// Kinds returns the table of the kinds that appear at run time. Whoever has
// virtual resources registers them there, under a name of its own, at any time:
//
//	cp.Kinds().SetVirtual("plugins.proa.io", []dynamic.Virtual{{Resource: row, Provider: p}})
func (cp *ControlPlane) Kinds() *dynamic.Table { return cp.kinds }
