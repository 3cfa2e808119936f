package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	meta := metadataOf(value)
	out := make([]byte, 0, len(meta)+96)
	out = append(out, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/`...)
	out = append(out, version...)
	out = append(out, `","metadata":`...)
	out = append(out, meta...)
	return append(out, '}')
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
	var meta struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	if json.Unmarshal(metadataOf(value), &meta) != nil {
		return ""
	}
	return meta.ResourceVersion
}

// table returns documents as a Table.
func (ep *endpoint) table(out *output, meta listMeta, docs []document) ([]byte, error) {
	columns, err := json.Marshal(table.Columns(ep.Resource.Resource))
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, 1024+len(docs)*768), `{"kind":"Table","apiVersion":"meta.k8s.io/`...)
	b = append(b, out.version...)
	b = append(b, `","metadata":`...)
	b = meta.appendTo(b)
	b = append(b, `,"columnDefinitions":`...)
	b = append(b, columns...)
	b = append(b, `,"rows":[`...)
	now := time.Now()
	for i := range docs {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = ep.appendRow(b, out, &docs[i], now); err != nil {
			return nil, err
		}
		docs[i].object = nil // not to hold all of a long list
	}
	return append(b, "]}"...), nil
}

func (ep *endpoint) appendRow(b []byte, out *output, d *document, now time.Time) ([]byte, error) {
	obj, err := d.decoded(ep)
	if err != nil {
		return b, err
	}
	row := table.Row(ep.Resource.Resource, obj, now)
	cells, err := json.Marshal(row.Cells)
	if err != nil {
		return b, fmt.Errorf("cells of %q: %w", obj.GetName(), err)
	}
	b = append(append(b, `{"cells":`...), cells...)
	if len(row.Conditions) > 0 {
		conditions, cerr := json.Marshal(row.Conditions)
		if cerr != nil {
			return b, cerr
		}
		b = append(append(b, `,"conditions":`...), conditions...)
	}
	switch out.include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		b = append(append(b, `,"object":`...), d.value...)
	default:
		b = append(append(b, `,"object":`...), partial(d.value, out.version)...)
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
