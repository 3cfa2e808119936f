package reconcile

import (
	"maps"
	"reflect"
	"slices"
)

// named is what an answer names of an object, without the values: true for a
// leaf, and the names below for an object. The elements of a list that have
// names are below it, by "[name]"; any other list is a leaf. It is kept with the
// object, so that what the next answer no longer names can be taken away, and
// holds nothing that must be kept secret.
type named any

// namesOf returns what a value names.
func namesOf(v any) named {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return true
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = namesOf(e)
		}
		return out
	case []any:
		elements, ok := byName(v)
		if !ok {
			return true
		}
		out := make(map[string]any, len(elements))
		for _, e := range elements {
			out[bracket(e.name)] = namesOf(e.value)
		}
		return out
	}
	return true
}

func bracket(name string) string { return "[" + name + "]" }

// below returns what is named below a member.
func below(n named, member string) (named, bool) {
	m, _ := n.(map[string]any) // nil is empty
	v, ok := m[member]
	return v, ok
}

// withoutNull returns a value without members that are null, which name
// nothing.
func withoutNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if e != nil {
				out[k] = withoutNull(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withoutNull(e)
		}
		return out
	}
	return v
}

// merge returns current with what wanted names in place of what is there, and
// without what was named before and is not now. Everything else is as it was.
// It changes none of its arguments; the result shares memory with them.
func merge(before named, wanted, current any) any {
	switch w := wanted.(type) {
	case map[string]any:
		if c, ok := current.(map[string]any); ok {
			return mergeObject(before, w, c)
		}
	case []any:
		if c, ok := current.([]any); ok {
			return mergeList(before, w, c)
		}
	}
	if equal(wanted, current) {
		return current
	}
	return wanted
}

func mergeObject(before named, wanted, current map[string]any) map[string]any {
	out := maps.Clone(current)
	for k, w := range wanted {
		c, there := current[k]
		if !there {
			out[k] = w
			continue
		}
		b, _ := below(before, k)
		out[k] = merge(b, w, c)
	}
	old, _ := before.(map[string]any) // nil is empty
	for k, b := range old {
		if _, still := wanted[k]; still {
			continue
		}
		if c, there := current[k]; there {
			drop(out, k, b, c)
		}
	}
	return out
}

// drop takes away from a member what was named of it, and the member itself if
// nothing else is left.
func drop(out map[string]any, k string, before named, current any) {
	b, deep := before.(map[string]any)
	switch c := current.(type) {
	case map[string]any:
		if !deep {
			break
		}
		if rest := mergeObject(b, nil, c); len(rest) > 0 {
			out[k] = rest
			return
		}
	case []any:
		if !deep {
			break
		}
		if rest := mergeList(b, nil, c); len(rest) > 0 {
			out[k] = rest
			return
		}
	}
	delete(out, k)
}

// An element is one of a list whose elements have names.
type element struct {
	name  string
	value map[string]any
}

// byName returns the elements of a list if all are objects with a name that no
// other has.
func byName(list []any) ([]element, bool) {
	if len(list) == 0 {
		return nil, false
	}
	out := make([]element, 0, len(list))
	for _, e := range list {
		o, _ := e.(map[string]any)    // a nil map has no name
		name, _ := o["name"].(string) // "" is none
		if name == "" || index(out, name) >= 0 {
			return nil, false
		}
		out = append(out, element{name, o})
	}
	return out, true
}

func index(list []element, name string) int {
	return slices.IndexFunc(list, func(e element) bool { return e.name == name })
}

// mergeList merges elements by their names. Elements without names are replaced
// as a whole, unless those that are there are the wanted ones with more members,
// such as defaults.
func mergeList(before named, wanted, current []any) []any {
	w, named := byName(wanted)
	c, ok := byName(current)
	if !ok || !named && len(wanted) > 0 {
		return mergeUnnamed(wanted, current)
	}
	// Places of wanted elements are filled in the wanted order; what others
	// have added stays where it is.
	out := make([]any, 0, max(len(wanted), len(current)))
	next := 0
	for _, e := range c {
		if index(w, e.name) >= 0 {
			out = append(out, mergeElement(before, w[next], c))
			next++
			continue
		}
		if _, was := below(before, bracket(e.name)); !was {
			out = append(out, e.value)
		}
	}
	for ; next < len(w); next++ {
		out = append(out, mergeElement(before, w[next], c))
	}
	return out
}

// mergeElement merges an element with the one of the same name, if there is.
func mergeElement(before named, wanted element, current []element) any {
	i := index(current, wanted.name)
	if i < 0 {
		return wanted.value
	}
	b, _ := below(before, bracket(wanted.name))
	return merge(b, wanted.value, current[i].value)
}

func mergeUnnamed(wanted, current []any) []any {
	if len(wanted) != len(current) {
		return wanted
	}
	for i := range wanted {
		if !equal(merge(nil, wanted[i], current[i]), current[i]) {
			return wanted
		}
	}
	return current
}

// equal compares decoded JSON. A number may be decoded in two ways.
func equal(a, b any) bool {
	switch a := a.(type) {
	case int64:
		if f, ok := b.(float64); ok {
			return float64(a) == f
		}
	case float64:
		if i, ok := b.(int64); ok {
			return a == float64(i)
		}
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, m, equal)
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, equal)
	}
	return reflect.DeepEqual(a, b)
}

// mergePatch returns what is left of a value after a JSON merge patch.
func mergePatch(current, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	c, _ := current.(map[string]any) // what is no object is replaced
	out := make(map[string]any, len(c)+len(p))
	maps.Copy(out, c)
	for k, v := range p {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = mergePatch(out[k], v)
	}
	return out
}
