package rego

import (
	"encoding/json"
	"maps"
	"strconv"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// A builtin computes one of Rego's functions. It panics with undefined if the
// function has no value for its arguments.
type builtin func(c *call) any

// A call is one of a builtin.
type call struct {
	i    *engine.Instance
	args []any
}

// undefined is what a builtin panics with.
type undefined struct{}

// offered are all builtins of the host. None reaches a network, a file or the
// host's own state; what a guest can make large is paid for before it is done.
var offered = func() map[string]builtin { //nolint:gochecknoglobals // a constant in all but name
	all := map[string]builtin{}
	for _, m := range []map[string]builtin{textBuiltins(), patternBuiltins(), timeBuiltins(), encodingBuiltins(), numberBuiltins(), netBuiltins(), collectionBuiltins()} {
		maps.Copy(all, m)
	}
	return all
}()

// call answers a call of the guest: it reads the arguments, which are values in
// the guest's memory, and makes a value of the result.
func (p *Plugin) call(i *engine.Instance, id int32, args []uint64) uint32 {
	f := p.builtins[id]
	if f == nil {
		i.Stop(engine.Trapped, "called the built-in function %d, which it has not declared", id)
	}
	c := &call{i: i, args: make([]any, len(args))}
	for n, a := range args {
		c.args[n] = argument(i, a)
	}
	v, ok := c.run(f)
	if !ok {
		return 0
	}
	return deliver(i, v)
}

// run computes, and says whether there is a value.
func (c *call) run(f builtin) (v any, ok bool) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case undefined:
			v, ok = nil, false
		default:
			panic(e)
		}
	}()
	c.i.Charge(100)
	return f(c), true
}

// argument reads a value of the guest.
func argument(i *engine.Instance, value uint64) any {
	export := fnJSONDump
	if i.Has(fnValueDump) {
		export = fnValueDump
	}
	at := i.Nested(export, value)
	b, ok := i.CString(uint32(at), abi.MaxCarry)
	if !ok {
		i.Stop(engine.Trapped, "an argument at %#x is outside the memory, or longer than %d bytes", uint32(at), abi.MaxCarry)
	}
	i.Charge(10 + int64(len(b))>>1)
	v, err := read(string(b))
	if err != nil {
		i.Stop(engine.Trapped, "an argument cannot be read: %v", err)
	}
	if i.Has(fnFree) {
		i.Nested(fnFree, at)
	}
	return v
}

// deliver makes a value for the guest.
func deliver(i *engine.Instance, v any) uint32 {
	export := fnJSONParse
	if i.Has(fnValueParse) {
		export = fnValueParse
	} else {
		v = rich(plain(v)) // JSON has no sets
	}
	b := appendValue(nil, v, "")
	i.Charge(10 + int64(len(b))>>1)
	at := uint32(i.Nested(fnMalloc, uint64(len(b))))
	if at == 0 {
		i.Stop(engine.OutOfMemory, "opa_malloc gave no memory for %d bytes", len(b))
	}
	if !i.Write(at, b) {
		i.Stop(engine.Trapped, "opa_malloc returned %#x, where %d bytes do not fit into memory", at, len(b))
	}
	value := uint32(i.Nested(export, uint64(at), uint64(len(b))))
	if value == 0 {
		i.Stop(engine.Trapped, "the guest cannot read a result of %d bytes", len(b))
	}
	if i.Has(fnFree) {
		i.Nested(fnFree, uint64(at))
	}
	return value
}

// none ends a builtin that has no value.
func none() { panic(undefined{}) }

func (c *call) must(err error) {
	if err != nil {
		none()
	}
}

// arg returns an argument, null if the guest gave fewer.
func (c *call) arg(n int) any {
	if n >= len(c.args) {
		return nil
	}
	return c.args[n]
}

func (c *call) text(n int) string {
	s, ok := c.arg(n).(string)
	if !ok {
		none()
	}
	return s
}

func (c *call) array(n int) []any {
	v, ok := c.arg(n).([]any)
	if !ok {
		none()
	}
	return v
}

func (c *call) object(n int) object {
	v, ok := c.arg(n).(object)
	if !ok {
		none()
	}
	return v
}

// items are those of an array or a set.
func (c *call) items(n int) []any {
	switch v := c.arg(n).(type) {
	case []any:
		return v
	case set:
		return v
	}
	none()
	return nil
}

// texts are those of an array or a set, or of a single text.
func (c *call) texts(n int) []string {
	if s, ok := c.arg(n).(string); ok {
		return []string{s}
	}
	var out []string
	for _, v := range c.items(n) {
		s, ok := v.(string)
		if !ok {
			none()
		}
		out = append(out, s)
	}
	return out
}

func (c *call) number(n int) json.Number {
	v, ok := c.arg(n).(json.Number)
	if !ok {
		none()
	}
	return v
}

func (c *call) int64(n int) int64 { return toInt(c.number(n)) }

func toInt(n json.Number) int64 {
	if v, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return v
	}
	f, err := n.Float64()
	if err != nil || f != float64(int64(f)) || f >= 1<<63 || f < -1<<63 {
		none()
	}
	return int64(f)
}

// pay charges for bytes that are gone through, a given number of times.
func (c *call) pay(bytes, times int) {
	const most = 1 << 40
	c.i.Charge(min(int64(bytes)*int64(max(times, 1)), most))
}

// fits ends a call whose result would be too large.
func (c *call) fits(bytes int) {
	if bytes > abi.MaxCarry || bytes < 0 {
		c.i.Stop(engine.OutOfMemory, "a built-in function's result would have more than %d bytes", abi.MaxCarry)
	}
}
