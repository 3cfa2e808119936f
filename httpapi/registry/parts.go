package registry

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/proa-project/proa/api"
)

// parts finds the spec and the status of a kind's Go type. An index of -1 is
// a part that the kind does not have.
type parts struct {
	spec, status int
	specMember   string // of the JSON
}

func partsOf(row *api.Resource) parts {
	t := reflect.TypeOf(row.New()).Elem()
	find := func(name string) int {
		if f, ok := t.FieldByName(name); ok && len(f.Index) == 1 {
			return f.Index[0]
		}
		return -1
	}
	p := parts{spec: find("Spec"), status: find("Status"), specMember: "spec"}
	if p.spec < 0 { // configurations of webhooks call it so
		p.spec, p.specMember = find("Webhooks"), "webhooks"
	}
	return p
}

// copyPart gives one object a part of another. They share what the part points
// to.
func copyPart(to, from api.Object, index int) {
	if index >= 0 {
		reflect.ValueOf(to).Elem().Field(index).Set(reflect.ValueOf(from).Elem().Field(index))
	}
}

// clearPart sets a part to its zero value.
func clearPart(obj api.Object, index int) {
	if index >= 0 {
		reflect.ValueOf(obj).Elem().Field(index).SetZero()
	}
}

// samePart reports whether a part of two objects means the same.
func samePart(a, b api.Object, index int) bool {
	if index < 0 {
		return true
	}
	return equality.Semantic.DeepEqual(
		reflect.ValueOf(a).Elem().Field(index).Addr().Interface(),
		reflect.ValueOf(b).Elem().Field(index).Addr().Interface())
}
