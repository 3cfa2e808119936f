// Package table makes the rows that kubectl get prints.
package table

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/proa-project/proa/api"
)

// Columns returns the columns of a kind. Those with a priority above 0 are
// printed in wide output only.
func Columns(r *api.Resource) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"},
		{Name: "Age", Type: "string"},
	}
}

// Row returns the cells of one object, in the order of Columns; now is what
// ages are counted to. Only Cells is set.
func Row(r *api.Resource, obj runtime.Object, now time.Time) metav1.TableRow {
	m, err := meta.Accessor(obj)
	if err != nil {
		return metav1.TableRow{}
	}
	return metav1.TableRow{Cells: []any{m.GetName(), age(m.GetCreationTimestamp(), now)}}
}

func age(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}
