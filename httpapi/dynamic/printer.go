package dynamic

import (
	"bytes"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// A Printer makes the cells of objects. It is for one goroutine.
type Printer struct {
	columns []Column
	paths   []*jsonpath.JSONPath
	buf     bytes.Buffer
	now     time.Time
}

// ageColumn is what a kind shows that says nothing about columns.
func ageColumn() []Column {
	return []Column{{
		Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}}
}

// CheckPath returns an error if a column's JSONPath cannot be read.
func CheckPath(path string) error {
	return jsonpath.New("").Parse("{" + path + "}")
}

// Printer returns a printer for objects of the kind; ages are counted to now.
func (k *Kind) Printer(now time.Time) (*Printer, error) {
	p := &Printer{columns: k.Columns, now: now}
	if p.columns == nil {
		p.columns = ageColumn()
	}
	for i := range p.columns {
		path := jsonpath.New(p.columns[i].Name).AllowMissingKeys(true)
		if err := path.Parse("{" + p.columns[i].JSONPath + "}"); err != nil {
			return nil, fmt.Errorf("column %q: %w", p.columns[i].Name, err)
		}
		p.paths = append(p.paths, path)
	}
	return p, nil
}

// Columns returns the definitions of the columns; the first is the name.
func (p *Printer) Columns() []metav1.TableColumnDefinition {
	out := []metav1.TableColumnDefinition{{
		Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
	}}
	for i := range p.columns {
		c := &p.columns[i]
		text := c.Description
		if text == "" {
			text = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		out = append(out, metav1.TableColumnDefinition{Name: c.Name, Type: c.Type, Format: c.Format, Description: text, Priority: c.Priority})
	}
	return out
}

// Cells returns the cells of a decoded object. A value that is not there, or
// not of the column's type, is nil.
func (p *Printer) Cells(object map[string]any) []any {
	meta, _ := object["metadata"].(map[string]any) // nil has no name
	name, _ := meta["name"].(string)
	cells := []any{name}
	for i, path := range p.paths {
		found, err := path.FindResults(object)
		if err != nil || len(found) == 0 || len(found[0]) == 0 {
			cells = append(cells, nil)
			continue
		}
		cells = append(cells, p.cell(path, p.columns[i].Type, found[0][0]))
	}
	return cells
}

func (p *Printer) cell(path *jsonpath.JSONPath, kind string, v reflect.Value) any {
	if !v.IsValid() || !v.CanInterface() {
		return nil
	}
	value := v.Interface()
	switch kind {
	case "string":
		p.buf.Reset()
		if err := path.PrintResults(&p.buf, []reflect.Value{reflect.ValueOf(value)}); err != nil {
			return nil
		}
		return p.buf.String()
	case "integer":
		switch n := value.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
	case "number":
		switch n := value.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
	case "boolean":
		if b, ok := value.(bool); ok {
			return b
		}
	case "date":
		if text, ok := value.(string); ok {
			t, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return "<invalid>"
			}
			return duration.HumanDuration(p.now.Sub(t))
		}
	}
	return nil
}
