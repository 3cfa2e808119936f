package openapi

import (
	_ "embed"
	"reflect"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// markersText says of upstream's types what their tags do not: which lists
// are maps or sets, what is merged as a whole, defaults, and which fields
// without omitempty are optional. TestMarkers keeps it in step with the types.
//
//go:embed markers.txt
var markersText string

// markers are facts about fields, by owner and JSON name.
type markers map[string][]string

// readMarkers parses markersText: one field a line, "pkg.Type field fact...".
// The field of a fact about the type itself is "-".
//
//nolint:gochecknoglobals // a constant in all but name
var readMarkers = sync.OnceValue(func() markers {
	m := markers{}
	for line := range strings.Lines(markersText) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] == "#" {
			continue
		}
		m[words[0]+" "+words[1]] = words[2:]
	}
	return m
})

// markerKey names a field in markersText, or its type with the field "".
func markerKey(owner reflect.Type, field string) string {
	if field == "" {
		field = "-"
	}
	return owner.PkgPath() + "." + owner.Name() + " " + field
}

// fact returns the value of a fact, and whether it is there.
func (m markers) fact(owner reflect.Type, field, name string) (string, bool) {
	for _, w := range m[markerKey(owner, field)] {
		if k, v, _ := strings.Cut(w, "="); k == name {
			return v, true
		}
	}
	return "", false
}

// atomic reports whether a map or struct is merged as a whole.
func (m markers) atomic(owner reflect.Type, field string) bool {
	v, ok := m.fact(owner, field, "map")
	return ok && v == "atomic"
}

func (m markers) optional(f jsonField) bool {
	_, ok := m.fact(f.owner, f.name, "optional")
	return ok
}

// apply puts what is known of a field into its schema.
func (m markers) apply(f jsonField, s *openapi3.Schema) {
	if v, ok := m.fact(f.owner, f.name, "list"); ok {
		extend(s, "x-kubernetes-list-type", v)
	}
	if v, ok := m.fact(f.owner, f.name, "keys"); ok {
		keys := []any{}
		for k := range strings.SplitSeq(v, ",") {
			keys = append(keys, k)
		}
		extend(s, "x-kubernetes-list-map-keys", keys)
	}
	if m.atomic(f.owner, f.name) {
		extend(s, "x-kubernetes-map-type", "atomic")
	}
	if v, ok := m.fact(f.owner, f.name, "default"); ok {
		s.Default = v
	}
}
