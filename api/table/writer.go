package table

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
)

// A Writer writes the cells of many objects of one kind as JSON, as one
// json.Marshal of Row's cells would be. It is for one goroutine.
type Writer struct {
	resource *api.Resource
	now      time.Time
	reads    *api.Selection
	object   api.Object // of which one row is made, then the next
	cut      []byte     // the part of its JSON that is decoded
}

// NewWriter returns a writer for a kind. Ages are counted to now.
func NewWriter(r *api.Resource, now time.Time) *Writer {
	return &Writer{resource: r, now: now, reads: kindOf(r).reads}
}

// AppendStored appends the cells of an object that is given as JSON. Only what
// the cells show is decoded.
func (w *Writer) AppendStored(b, value []byte) ([]byte, error) {
	if w.object == nil {
		w.object = w.resource.New()
	} else {
		reflect.ValueOf(w.object).Elem().SetZero()
	}
	w.cut = w.reads.Append(w.cut[:0], value)
	if err := api.DecodeStored(w.cut, w.object); err != nil {
		return b, err
	}
	return w.Append(b, w.object)
}

// Append appends the cells of an object.
func (w *Writer) Append(b []byte, obj runtime.Object) ([]byte, error) {
	b = append(b, '[')
	for i, cell := range Row(w.resource, obj, w.now).Cells {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := cell.(type) {
		case string:
			b = appendString(b, v)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		default:
			text, err := json.Marshal(v)
			if err != nil {
				return b, fmt.Errorf("cell %d of a %s: %w", i, w.resource.Kind, err)
			}
			b = append(b, text...)
		}
	}
	return append(b, ']'), nil
}

// appendString appends a string as json.Marshal writes it.
func appendString(b []byte, s string) []byte {
	start := len(b)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '<':
			b = append(b, `\u003c`...)
		case c == '>':
			b = append(b, `\u003e`...)
		case c == '&':
			b = append(b, `\u0026`...)
		case c < ' ', c == '"', c == '\\', c >= utf8.RuneSelf:
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // strings can be marshaled
			}
			return append(b[:start], text...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// AppendColumns appends the columns of a kind as JSON.
func AppendColumns(b []byte, r *api.Resource) []byte { return append(b, kindOf(r).columns...) }

// A kind is what is known of a kind before there are objects of it.
type kind struct {
	columns []byte // as JSON
	reads   *api.Selection
}

func newKind(r *api.Resource) kind {
	columns, err := json.Marshal(Columns(r))
	if err != nil {
		panic(err) // they are strings and numbers
	}
	return kind{columns: columns, reads: api.Select(reads(r)...)}
}

// kindOf returns the kind of a row, which is mostly one of the table.
func kindOf(r *api.Resource) kind {
	if k, ok := kinds()[r]; ok {
		return k
	}
	return newKind(r)
}

//nolint:gochecknoglobals // built once, never changed
var kinds = sync.OnceValue(func() map[*api.Resource]kind {
	out := map[*api.Resource]kind{}
	for _, r := range api.Resources() {
		out[r] = newKind(r)
	}
	return out
})
