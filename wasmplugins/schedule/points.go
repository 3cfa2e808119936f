package schedule

import (
	"fmt"
	"slices"
	"strings"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// A function is an export of the native ABI.
type function int

// The functions, by their place in functions.
const (
	fnVersion function = iota
	fnAlloc
	fnConfigure
	fnPoints
	fnTable
	fnPrepare
	fnNodes
	fnFilter
	fnPreScore
	fnScore
	fnPostFilter
	fnReserve
	fnUnreserve
	fnPermit
	fnPreBind
	fnBind
	fnPostBind
)

// functions are the exports with their signatures, and the points that a guest
// with them serves.
var functions = [...]struct { //nolint:gochecknoglobals // a constant in all but name
	name, signature string
	point           framework.Point
}{
	fnVersion:    {abi.ExportVersion, "()i32", ""},
	fnAlloc:      {abi.ExportAlloc, "(i32)i32", ""},
	fnConfigure:  {abi.ExportConfigure, entry, ""},
	fnPoints:     {abi.ExportPoints, "()i64", ""},
	fnTable:      {abi.ExportTable, "(i32)i32", ""},
	fnPrepare:    {abi.ExportPrepare, entry, framework.PointPreFilter},
	fnNodes:      {abi.ExportNodes, "(i32,i32,i32,i32)i32", ""},
	fnFilter:     {abi.ExportFilter, batch, framework.PointFilter},
	fnPreScore:   {abi.ExportPreScore, batch, framework.PointPreScore},
	fnScore:      {abi.ExportScore, batch, framework.PointScore},
	fnPostFilter: {abi.ExportPostFilter, entry, framework.PointPostFilter},
	fnReserve:    {abi.ExportReserve, entry, framework.PointReserve},
	fnUnreserve:  {abi.ExportUnreserve, entry, ""},
	fnPermit:     {abi.ExportPermit, entry, framework.PointPermit},
	fnPreBind:    {abi.ExportPreBind, entry, framework.PointPreBind},
	fnBind:       {abi.ExportBind, entry, framework.PointBind},
	fnPostBind:   {abi.ExportPostBind, entry, framework.PointPostBind},
}

const (
	entry = "(i32,i32)i64"
	batch = "(i32,i32)i32"
)

// exports are the functions as the engine wants them: all but two may be
// missing.
func exports() []string {
	var list []string
	for f := range functions {
		name := functions[f].name
		if function(f) > fnAlloc {
			name = "?" + name
		}
		list = append(list, name)
	}
	return list
}

// available returns the points whose functions a module exports, in order.
func available(name string, code *engine.Code) ([]framework.Point, error) {
	refuse := func(format string, args ...any) error {
		return &engine.Error{Plugin: name, Reason: engine.BadReply, Detail: fmt.Sprintf(format, args...)}
	}
	var points []framework.Point
	for f := range functions {
		fn := &functions[f]
		signature, ok := code.Exports[fn.name]
		switch {
		case !ok:
			continue
		case signature != fn.signature:
			return nil, refuse("the module's %s is %s, which should be %s", fn.name, signature, fn.signature)
		case fn.point != "":
			points = append(points, fn.point)
		}
		if f := function(f); f == fnFilter || f == fnPreScore || f == fnScore {
			for _, need := range []function{fnTable, fnPrepare, fnNodes} {
				if _, ok := code.Exports[functions[need].name]; !ok {
					return nil, refuse("the module exports %s, but not %s", fn.name, functions[need].name)
				}
			}
		}
	}
	return points, nil
}

// narrow keeps the points that are listed by their names in the ABI, which are
// the framework's in lower case. What else is listed does not matter.
func narrow(points []framework.Point, listed []string) []framework.Point {
	return slices.DeleteFunc(slices.Clone(points), func(p framework.Point) bool {
		return !slices.ContainsFunc(listed, func(s string) bool { return strings.EqualFold(s, string(p)) })
	})
}

// choose returns the points at which a module is called: those that the object
// names, by default all that it has but Bind.
func choose(name string, has []framework.Point, spec []pluginsv1.SchedulerPoint) ([]framework.Point, error) {
	refuse := func(detail string) error {
		return &engine.Error{Plugin: name, Reason: engine.BadReply, Detail: detail}
	}
	if len(spec) == 0 {
		points := slices.DeleteFunc(slices.Clone(has), func(p framework.Point) bool { return p == framework.PointBind })
		if len(points) == 0 {
			return nil, refuse("the module serves no point of scheduling")
		}
		return points, nil
	}
	var points []framework.Point
	for _, p := range has {
		if slices.Contains(spec, pluginsv1.SchedulerPoint(p)) {
			points = append(points, p)
		}
	}
	for _, p := range spec {
		if !slices.Contains(has, framework.Point(p)) {
			return nil, refuse(fmt.Sprintf("the module does not serve the point %s, which spec.points names", p))
		}
	}
	return points, nil
}

// eventNames are the changes that a manifest may name.
var eventNames = [...]framework.Event{ //nolint:gochecknoglobals // a constant in all but name
	framework.NodeAdded, framework.NodeAllocatable, framework.NodeLabels, framework.NodeTaints,
	framework.PodAdded, framework.PodRemoved, framework.PodLabels, framework.PodShrunk, framework.PodOwn,
}

// parseEvents returns the changes of that names; all if there is none.
func parseEvents(names []string) (framework.Event, error) {
	if len(names) == 0 {
		return ^framework.Event(0), nil
	}
	events := framework.PodOwn
	for _, name := range names {
		i := slices.IndexFunc(eventNames[:], func(e framework.Event) bool { return e.String() == name })
		if i < 0 {
			return 0, fmt.Errorf("section %s: schedule: unknown event %q", abi.ManifestSection, name)
		}
		events |= eventNames[i]
	}
	return events, nil
}
