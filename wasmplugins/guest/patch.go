package guest

import (
	"sort"
	"strconv"
	"strings"
)

// A Patch is a list of changes as RFC 6902 has them. The zero Patch is empty.
//
// Paths are JSON pointers; Pointer makes them. Values may be strings, bools,
// integers, []string, map[string]string, Value, Raw, nil, and Objects and slices
// of them; others panic.
type Patch struct {
	b []byte
	n int
}

// Raw is encoded JSON.
type Raw string

// Add sets the member at path, or inserts before an array's element; the
// element "-" is behind the last.
func (p *Patch) Add(path string, value any) *Patch { return p.op("add", path, value) }

// Replace sets the member or element at path, which must be there.
func (p *Patch) Replace(path string, value any) *Patch { return p.op("replace", path, value) }

// Remove removes the member or element at path, which must be there.
func (p *Patch) Remove(path string) *Patch {
	p.begin("remove", path)
	p.b = append(p.b, '}')
	return p
}

// Test makes the whole patch fail unless the value is at path.
func (p *Patch) Test(path string, value any) *Patch { return p.op("test", path, value) }

// Empty reports whether the patch has no operation.
func (p *Patch) Empty() bool { return p.n == 0 }

func (p *Patch) op(op, path string, value any) *Patch {
	p.begin(op, path)
	p.b = append(p.b, `,"value":`...)
	p.b = append(encode(p.b, value), '}')
	return p
}

func (p *Patch) begin(op, path string) {
	if p.n == 0 {
		p.b = append(p.b, '[')
	} else {
		p.b = append(p.b, ',')
	}
	p.n++
	p.b = append(p.b, `{"op":"`...)
	p.b = append(p.b, op...)
	p.b = append(p.b, `","path":`...)
	p.b = quote(p.b, path)
}

// Pointer makes a JSON pointer of its parts.
func Pointer(parts ...string) string {
	var s strings.Builder
	for _, p := range parts {
		s.WriteByte('/')
		if strings.ContainsAny(p, "~/") {
			p = strings.ReplaceAll(strings.ReplaceAll(p, "~", "~0"), "/", "~1")
		}
		s.WriteString(p)
	}
	return s.String()
}

func encode(out []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(out, "null"...)
	case string:
		return quote(out, v)
	case bool:
		return strconv.AppendBool(out, v)
	case int:
		return strconv.AppendInt(out, int64(v), 10)
	case int32:
		return strconv.AppendInt(out, int64(v), 10)
	case int64:
		return strconv.AppendInt(out, v, 10)
	case Raw:
		return append(out, v...)
	case Value:
		if v.Missing() {
			return append(out, "null"...)
		}
		return append(out, v.Raw()...)
	case []string:
		return list(out, v)
	case *Object:
		return v.encode(out)
	case []*Object:
		return list(out, v)
	case []Value:
		return list(out, v)
	case []any:
		return list(out, v)
	case map[string]string:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		out = append(out, '{')
		for i, k := range keys {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(quote(out, k), ':')
			out = quote(out, v[k])
		}
		return append(out, '}')
	}
	panic("guest: a value of this type cannot stand in a patch; encode it and use Raw")
}
