package rego

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// A value of Rego is nil, a bool, a json.Number, a string, a []any, a set or an
// object.
type (
	// set is sorted and without duplicates.
	set []any
	// object is sorted by key.
	object []member
	member struct{ key, value any }
)

// A decoder reads a value as OPA writes it: JSON, with sets, and with objects
// that may have any keys.
type decoder struct {
	s     string
	depth int
}

var errSyntax = errors.New("not a value")

// read decodes a whole text.
func read(s string) (any, error) {
	d := &decoder{s: s}
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	if d.space(); d.s != "" {
		return nil, errSyntax
	}
	return v, nil
}

func (d *decoder) space() { d.s = strings.TrimLeft(d.s, " \t\r\n") }

// take removes a token, if it is next.
func (d *decoder) take(token string) bool {
	d.space()
	rest, ok := strings.CutPrefix(d.s, token)
	if ok {
		d.s = rest
	}
	return ok
}

func (d *decoder) value() (any, error) {
	const deepest = 1000
	if d.depth++; d.depth > deepest {
		return nil, fmt.Errorf("%w: nested too deeply", errSyntax)
	}
	defer func() { d.depth-- }()
	d.space()
	switch {
	case d.take("null"):
		return nil, nil
	case d.take("true"):
		return true, nil
	case d.take("false"):
		return false, nil
	case d.take("set()"):
		return set{}, nil
	case d.take("["):
		return d.items("]")
	case d.take("{"):
		return d.braces()
	case strings.HasPrefix(d.s, `"`):
		return d.text()
	}
	return d.number()
}

func (d *decoder) items(end string) ([]any, error) {
	out := []any{}
	if d.take(end) {
		return out, nil
	}
	for {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if d.take(end) {
			return out, nil
		}
		if !d.take(",") {
			return nil, errSyntax
		}
	}
}

// braces reads what is in them: an object or a set.
func (d *decoder) braces() (any, error) {
	if d.take("}") {
		return object{}, nil
	}
	first, err := d.value()
	if err != nil {
		return nil, err
	}
	if !d.take(":") {
		if d.take("}") {
			return set{first}, nil
		}
		if !d.take(",") {
			return nil, errSyntax
		}
		rest, err := d.items("}")
		return newSet(append(rest, first)), err
	}
	var o object
	for key := first; ; {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		o = append(o, member{key, v})
		if d.take("}") {
			return o.sort(), nil
		}
		if !d.take(",") {
			return nil, errSyntax
		}
		if key, err = d.value(); err != nil {
			return nil, err
		}
		if !d.take(":") {
			return nil, errSyntax
		}
	}
}

func (d *decoder) text() (string, error) {
	for n := 1; n < len(d.s); n++ {
		switch d.s[n] {
		case '\\':
			n++
		case '"':
			var s string
			if err := json.Unmarshal([]byte(d.s[:n+1]), &s); err != nil {
				return "", errSyntax
			}
			d.s = d.s[n+1:]
			return s, nil
		}
	}
	return "", errSyntax
}

func (d *decoder) number() (json.Number, error) {
	const longest = 1000 // what computes with longer ones takes long
	n := 0
	for n < len(d.s) && strings.IndexByte("+-.0123456789eE", d.s[n]) >= 0 {
		n++
	}
	token := d.s[:n]
	if len(token) > longest || !json.Valid([]byte(token)) {
		return "", errSyntax
	}
	d.s = d.s[n:]
	return json.Number(token), nil
}

func newSet(items []any) set {
	slices.SortFunc(items, compare)
	return slices.CompactFunc(items, func(a, b any) bool { return compare(a, b) == 0 })
}

// sort sorts an object and keeps the last of equal keys.
func (o object) sort() object {
	slices.SortStableFunc(o, func(a, b member) int { return compare(a.key, b.key) })
	out := o[:0]
	for _, m := range o {
		if n := len(out); n > 0 && compare(out[n-1].key, m.key) == 0 {
			out[n-1] = m
		} else {
			out = append(out, m)
		}
	}
	return out
}

func (o object) get(key string) (any, bool) {
	for _, m := range o {
		if m.key == key {
			return m.value, true
		}
	}
	return nil, false
}

// rank is the order of the types.
func rank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case json.Number:
		return 2
	case string:
		return 3
	case []any:
		return 4
	case object:
		return 5
	}
	return 6
}

// compare is Rego's total order of values.
func compare(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case bool:
		if a == b.(bool) { //nolint:errcheck,forcetypeassert // of the same rank
			return 0
		} else if a {
			return 1
		}
		return -1
	case json.Number:
		return compareNumbers(a, b.(json.Number)) //nolint:errcheck,forcetypeassert // of the same rank
	case string:
		return strings.Compare(a, b.(string)) //nolint:errcheck,forcetypeassert // of the same rank
	case []any:
		return slices.CompareFunc(a, b.([]any), compare) //nolint:errcheck,forcetypeassert // of the same rank
	case set:
		return slices.CompareFunc(a, b.(set), compare) //nolint:errcheck,forcetypeassert // of the same rank
	case object:
		return slices.CompareFunc(a, b.(object), func(x, y member) int { //nolint:errcheck,forcetypeassert // of the same rank
			return cmp.Or(compare(x.key, y.key), compare(x.value, y.value))
		})
	}
	return 0
}

func compareNumbers(a, b json.Number) int {
	if x, err := strconv.ParseInt(string(a), 10, 64); err == nil {
		if y, err := strconv.ParseInt(string(b), 10, 64); err == nil {
			return cmp.Compare(x, y)
		}
	}
	x, okX := float(a)
	y, okY := float(b)
	if !okX || !okY {
		return strings.Compare(string(a), string(b))
	}
	return x.Cmp(y)
}

// float reads a number with more precision than a float64 has. A number whose
// exponent would make that costly is refused.
func float(n json.Number) (*big.Float, bool) {
	f, _, err := big.ParseFloat(string(n), 10, 128, big.ToNearestEven)
	return f, err == nil && f.MantExp(nil) < 4096 && f.MantExp(nil) > -4096
}

// write appends a value as OPA reads it, with or without the spaces that its
// own texts have.
func appendValue(b []byte, v any, space string) []byte {
	list := func(open string, items []any, end string) {
		b = append(b, open...)
		for n, item := range items {
			if n > 0 {
				b = append(append(b, ','), space...)
			}
			b = appendValue(b, item, space)
		}
		b = append(b, end...)
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case json.Number:
		return append(b, v...)
	case string:
		return appendText(b, v)
	case []any:
		list("[", v, "]")
	case set:
		if len(v) == 0 {
			return append(b, "set()"...)
		}
		list("{", v, "}")
	case object:
		b = append(b, '{')
		for n, m := range v {
			if n > 0 {
				b = append(append(b, ','), space...)
			}
			b = append(append(appendValue(b, m.key, space), ':'), space...)
			b = appendValue(b, m.value, space)
		}
		b = append(b, '}')
	}
	return b
}

func appendText(b []byte, s string) []byte {
	var w strings.Builder
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // strings always encode
		return append(b, `""`...)
	}
	return append(b, strings.TrimSuffix(w.String(), "\n")...)
}

// show is a value as OPA shows it in texts.
func show(v any) string { return string(appendValue(nil, v, " ")) }

// plain makes JSON's types of a value: a set becomes an array, and a key that
// is not a string its text.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		return plainItems(v)
	case set:
		return plainItems(v)
	case object:
		m := make(map[string]any, len(v))
		for _, e := range v {
			key, ok := e.key.(string)
			if !ok {
				key = string(appendValue(nil, e.key, ""))
			}
			m[key] = plain(e.value)
		}
		return m
	}
	return v
}

func plainItems(items []any) []any {
	out := make([]any, len(items))
	for n, item := range items {
		out[n] = plain(item)
	}
	return out
}

// rich is the way back from plain.
func rich(v any) any {
	switch v := v.(type) {
	case []any:
		for n := range v {
			v[n] = rich(v[n])
		}
	case map[string]any:
		o := make(object, 0, len(v))
		for key, value := range v {
			o = append(o, member{key, rich(value)})
		}
		return o.sort()
	case float64:
		b, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		return json.Number(b)
	case int64:
		return integer(v)
	case int:
		return integer(int64(v))
	}
	return v
}

func integer(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }
