package rego

import (
	"encoding/json"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/proa-project/proa/wasmplugins/abi"
)

func collectionBuiltins() map[string]builtin {
	return map[string]builtin{
		"json.patch":    patch,
		"object.subset": func(c *call) any { return subset(c, c.arg(0), c.arg(1)) },
		"object.keys": func(c *call) any {
			var keys set
			for _, m := range c.object(0) {
				keys = append(keys, m.key)
			}
			return keys
		},
		"object.union_n": func(c *call) any {
			out := object{}
			for n := range c.array(0) {
				c.pay(len(out), 4)
				out = union(out, (&call{i: c.i, args: c.array(0)}).object(n))
			}
			return out
		},
		"array.reverse": func(c *call) any {
			out := slices.Clone(c.array(0))
			slices.Reverse(out)
			return out
		},
		"cast_array": func(c *call) any { return c.items(0) },
		"cast_string": func(c *call) any {
			return c.text(0)
		},
		"cast_set": func(c *call) any { return newSet(slices.Clone(c.items(0))) },
	}
}

// patch applies a patch of RFC 6902, whose paths may be arrays too. Sets are
// not changed.
func patch(c *call) any {
	document, err := json.Marshal(plain(c.arg(0)))
	c.must(err)
	ops := c.array(1)
	raw := make([]any, 0, len(ops))
	for _, op := range ops {
		o, ok := op.(object)
		if !ok {
			none()
		}
		out, _ := plain(o).(map[string]any)
		for _, key := range []string{"path", "from"} {
			if v, ok := o.get(key); ok {
				out[key] = (&call{i: c.i, args: []any{v}}).pointer(0)
			}
		}
		raw = append(raw, out)
	}
	b, err := json.Marshal(raw)
	c.must(err)
	c.pay(len(document)+len(b), 16+len(ops))
	p, err := jsonpatch.DecodePatch(b)
	c.must(err)
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = abi.MaxCarry
	options.AllowMissingPathOnRemove, options.EnsurePathExistsOnAdd = false, false
	patched, err := p.ApplyWithOptions(document, options)
	c.must(err)
	c.fits(len(patched))
	d := json.NewDecoder(strings.NewReader(string(patched)))
	d.UseNumber()
	var v any
	c.must(d.Decode(&v))
	return rich(v)
}

// pointer reads a JSON pointer, with or without its first slash, or as an array.
func (c *call) pointer(n int) string {
	if s, ok := c.arg(n).(string); ok {
		if s != "" && !strings.HasPrefix(s, "/") {
			s = "/" + s
		}
		return s
	}
	var b strings.Builder
	for _, part := range c.array(n) {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(display(part)))
	}
	return b.String()
}

// subset reports whether a value has all of another: of an object all members,
// deeply; of a set all elements; of an array a run of elements.
func subset(c *call, super, sub any) bool {
	switch b := sub.(type) {
	case object:
		a, ok := super.(object)
		if !ok {
			none()
		}
		return subsetObject(c, a, b)
	case set:
		switch a := super.(type) {
		case set:
			return all(c, a, b)
		case []any:
			return all(c, a, b)
		}
	case []any:
		a, ok := super.([]any)
		if !ok {
			none()
		}
		for n := 0; n+len(b) <= len(a); n++ {
			c.pay(len(b), 4)
			if compare(a[n:n+len(b)], b) == 0 {
				return true
			}
		}
		return false
	}
	none()
	return false
}

func all(c *call, a, b []any) bool {
	c.pay(len(a)+len(b), 32)
	has := newSet(slices.Clone(a))
	for _, v := range b {
		if _, found := slices.BinarySearchFunc(has, v, compare); !found {
			return false
		}
	}
	return true
}

func subsetObject(c *call, super, sub object) bool {
	for _, m := range sub {
		n, found := slices.BinarySearchFunc(super, m.key, func(e member, key any) int { return compare(e.key, key) })
		if !found {
			return false
		}
		v := super[n].value
		_, isObject := v.(object)
		_, want := m.value.(object)
		switch {
		case isObject && want:
			if !subset(c, v, m.value) {
				return false
			}
		case compare(v, m.value) != 0:
			return false
		}
	}
	return true
}

// union merges two objects deeply; the second wins.
func union(a, b object) object {
	out := make(object, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := compare(a[0].key, b[0].key); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			m := b[0]
			x, okX := a[0].value.(object)
			y, okY := m.value.(object)
			if okX && okY {
				m.value = union(x, y)
			}
			out, a, b = append(out, m), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}
