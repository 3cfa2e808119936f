package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/table"
)

// A document is one object on its way to a client: its JSON with
// resourceVersion, and the object itself where somebody has it at hand.
type document struct {
	value  []byte
	object api.Object
}

// decoded returns the object.
func (d *document) decoded(ep *endpoint) (api.Object, error) {
	if d.object == nil {
		obj := ep.New()
		if err := api.DecodeStored(d.value, obj); err != nil {
			return nil, err
		}
		d.object = obj
	}
	return d.object, nil
}

// encode returns a document in the form of an answer.
func (ep *endpoint) encode(out *output, d document) ([]byte, error) {
	switch {
	case out.shape == asTable:
		t, err := ep.table(out, listMeta{version: revisionOf(d.value)}, []document{d})
		if err != nil {
			return nil, err
		}
		return finish(out, t)
	case out.format == formatProtobuf:
		return ep.protobufOf(out, d)
	case out.shape == asMetadata:
		return finish(out, partial(d.value, out.version))
	default:
		return finish(out, d.value)
	}
}

// finish turns JSON into the wanted text.
func finish(out *output, value []byte) ([]byte, error) {
	switch {
	case out.format == formatYAML:
		return yaml.JSONToYAML(value)
	case out.pretty:
		var b bytes.Buffer
		if err := json.Indent(&b, value, "", "  "); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
		return b.Bytes(), nil
	default:
		return value, nil
	}
}

// partial returns the metadata of an object as a PartialObjectMetadata.
func partial(value []byte, version string) []byte {
	return appendPartial(nil, value, version)
}

// appendPartial appends the metadata of an object as a PartialObjectMetadata.
func appendPartial(b, value []byte, version string) []byte {
	const start, middle = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/`, `","metadata":`
	meta := metadataOf(value)
	b = slices.Grow(b, len(start)+len(version)+len(middle)+len(meta)+1)
	b = append(append(b, start...), version...)
	b = append(append(b, middle...), meta...)
	return append(b, '}')
}

// metadataOf returns the metadata in an object's JSON.
func metadataOf(value []byte) []byte {
	if m := api.Member(value, "metadata"); m != nil {
		return m
	}
	return []byte("{}")
}

// revisionOf returns the resourceVersion in an object's JSON.
func revisionOf(value []byte) string {
	var version string
	if json.Unmarshal(api.Member(metadataOf(value), "resourceVersion"), &version) != nil {
		return ""
	}
	return version
}

// table returns documents as a Table.
func (ep *endpoint) table(out *output, meta listMeta, docs []document) ([]byte, error) {
	b := append(make([]byte, 0, 4096), `{"kind":"Table","apiVersion":"meta.k8s.io/`...)
	b = append(b, out.version...)
	b = append(b, `","metadata":`...)
	b = meta.appendTo(b)
	b = append(b, `,"columnDefinitions":`...)
	rows, err := ep.rows(time.Now())
	if err != nil {
		return nil, err
	}
	b = rows.AppendColumns(b)
	b = append(b, `,"rows":[`...)
	start := len(b)
	for i := range docs {
		if i > 0 {
			b = append(b, ',')
		}
		if i == sampled {
			b = growLike(b, len(b)-start, len(docs))
		}
		if b, err = appendRow(b, out, &docs[i], rows); err != nil {
			return nil, err
		}
	}
	return append(b, "]}"...), nil
}

// A rowWriter writes the cells of objects.
type rowWriter interface {
	AppendColumns(b []byte) []byte
	Append(b []byte, obj runtime.Object) ([]byte, error)
	AppendStored(b, value []byte) ([]byte, error)
}

// fixedRows writes the cells of a kind of the fixed table.
type fixedRows struct {
	*table.Writer
	row *api.Resource
}

func (f fixedRows) AppendColumns(b []byte) []byte { return table.AppendColumns(b, f.row) }

// rows returns what writes the cells of the kind.
func (ep *endpoint) rows(now time.Time) (rowWriter, error) {
	if ep.kind != nil && !ep.kind.UseGoType {
		return newFreeRows(ep.kind, now)
	}
	return fixedRows{table.NewWriter(ep.Resource.Resource, now), ep.Resource.Resource}, nil
}

// sampled is how many items of a list tell how much room all of them need.
const sampled = 16

// growLike makes room in b for a list of n items, of which the first few are in
// b and have taken up size bytes.
func growLike(b []byte, size, n int) []byte {
	rest := size / sampled * (n - sampled)
	return slices.Grow(b, rest+rest/16)
}

func appendRow(b []byte, out *output, d *document, rows rowWriter) ([]byte, error) {
	b = append(b, `{"cells":`...)
	var err error
	if d.object != nil {
		b, err = rows.Append(b, d.object)
	} else {
		b, err = rows.AppendStored(b, d.value)
	}
	if err != nil {
		return b, err
	}
	switch out.include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		b = append(append(b, `,"object":`...), d.value...)
	default:
		b = appendPartial(append(b, `,"object":`...), d.value, out.version)
	}
	return append(b, '}'), nil
}

// partialObject decodes the metadata of a document.
func partialObject(d document, version string) (*metav1.PartialObjectMetadata, error) {
	p := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/" + version}}
	if err := json.Unmarshal(metadataOf(d.value), &p.ObjectMeta); err != nil {
		return nil, err
	}
	return p, nil
}

// protobufOf returns a document in the protobuf envelope.
func (ep *endpoint) protobufOf(out *output, d document) ([]byte, error) {
	apiVersion, kind, raw, err := ep.marshal(out, d)
	if err != nil {
		return nil, err
	}
	return envelope(apiVersion, kind, raw)
}

// marshal returns a document as a protobuf message without the envelope.
func (ep *endpoint) marshal(out *output, d document) (apiVersion, kind string, raw []byte, err error) {
	if out.shape == asMetadata {
		p, perr := partialObject(d, out.version)
		if perr != nil {
			return "", "", nil, perr
		}
		raw, err = p.Marshal()
		return p.APIVersion, p.Kind, raw, err
	}
	stored := d.object == nil && ep.StoredAs == nil
	if stored {
		if known, ok := ep.messages.get(d.value); ok {
			return ep.GroupVersion().String(), ep.Kind, known, nil
		}
	}
	obj, err := d.decoded(ep)
	if err != nil {
		return "", "", nil, err
	}
	m, ok := obj.(marshaler)
	if !ok {
		return "", "", nil, fmt.Errorf("%T has no protobuf form", obj)
	}
	raw, err = m.Marshal()
	if stored && err == nil {
		ep.messages.put(d.value, raw)
	}
	return ep.GroupVersion().String(), ep.Kind, raw, err
}

type marshaler interface{ Marshal() ([]byte, error) }

// envelope wraps a protobuf message as Kubernetes does.
func envelope(apiVersion, kind string, raw []byte) ([]byte, error) {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	const magic = "k8s\x00"
	b := make([]byte, len(magic)+u.Size())
	copy(b, magic)
	n, err := u.MarshalTo(b[len(magic):])
	return b[:len(magic)+n], err
}
