package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/storage"
)

// listOrWatch answers GET on a collection.
func (s *Server) listOrWatch(w http.ResponseWriter, r *http.Request, c *call) error {
	if c.info.Verb == "watch" {
		return s.watch(w, r, c)
	}
	return s.list(w, r, c)
}

// list answers with the objects of a collection, or some of them.
func (s *Server) list(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true})
	if err != nil {
		return err
	}
	opts, err := c.parseListOptions(false)
	if err != nil {
		return err
	}
	sel, err := c.parseSelector()
	if err != nil {
		return err
	}
	found, err := s.find(r, c, opts, sel)
	if err != nil {
		return err
	}
	return writeList(w, r, c, &out, c.listMetaOf(&found, sel), found.Items)
}

// find reads the part of a collection that a list is about.
func (s *Server) find(r *http.Request, c *call, opts *listOptions, sel *selector) (storage.List, error) {
	prefix, ok := sel.prefix(c.info.Namespace)
	lo := storage.ListOptions{Limit: int(max(opts.limit, 0)), Filter: sel.filter()}
	switch {
	case opts.next != "":
		token, err := decodeContinue(opts.next, c.Prefix(c.info.Namespace))
		if err != nil {
			return storage.List{}, err
		}
		if opts.hasRevision && opts.revision != 0 {
			return storage.List{}, badRequest("specifying resource version is not allowed when using continue")
		}
		lo.After = token.after
		if token.revision > 0 {
			lo.Match, lo.Revision = storage.Exact, token.revision
		}
	case !opts.hasRevision:
	case opts.match == metav1.ResourceVersionMatchExact,
		opts.match == "" && opts.limit > 0 && opts.revision > 0:
		lo.Match, lo.Revision = storage.Exact, opts.revision
	default:
		lo.Match, lo.Revision = storage.NotOlderThan, opts.revision
	}
	if !ok { // the selectors contradict the URL: nothing can match
		lo.Filter = func(*storage.Item) bool { return false }
		prefix = c.Prefix(c.info.Namespace)
	}
	found, err := c.store.List(r.Context(), prefix, lo)
	if errors.Is(err, storage.ErrCompacted) {
		return found, expired(opts, lo.After, c.Prefix(c.info.Namespace))
	}
	return found, err
}

// listMetaOf returns the metadata of a list.
func (c *call) listMetaOf(found *storage.List, sel *selector) listMeta {
	m := listMeta{version: strconv.FormatInt(found.Revision, 10), remaining: -1}
	if found.More && len(found.Items) > 0 {
		m.next = encodeContinue(found.Revision, found.Items[len(found.Items)-1].Key, c.Prefix(c.info.Namespace))
		if sel.everything() {
			m.remaining = found.Remaining
		}
	}
	return m
}

// listMeta is the metadata of a list.
type listMeta struct {
	version   string
	next      string
	remaining int64 // -1 if unknown; only counts with next
}

func (m *listMeta) appendTo(b []byte) []byte {
	b = append(b, `{"resourceVersion":"`...)
	b = append(b, m.version...)
	b = append(b, '"')
	if m.next != "" {
		b = append(b, `,"continue":"`...)
		b = append(b, m.next...)
		b = append(b, '"')
		if m.remaining >= 0 {
			b = append(b, `,"remainingItemCount":`...)
			b = strconv.AppendInt(b, m.remaining, 10)
		}
	}
	return append(b, '}')
}

func (m *listMeta) object() metav1.ListMeta {
	out := metav1.ListMeta{ResourceVersion: m.version, Continue: m.next}
	if m.next != "" && m.remaining >= 0 {
		out.RemainingItemCount = &m.remaining
	}
	return out
}

// writeList answers with items in the negotiated form.
func writeList(w http.ResponseWriter, r *http.Request, c *call, out *output, meta listMeta, items []storage.Item) error {
	if out.plain() && !out.pretty && !c.converted {
		joinList(w, r, out, c.listStart(&meta), items)
		return nil
	}
	docs := make([]document, len(items))
	if err := c.ownAll(r.Context(), items, docs); err != nil {
		return err
	}
	body, err := c.encodeList(out, meta, docs)
	if err != nil {
		return err
	}
	writeBody(w, r, out, http.StatusOK, body)
	return nil
}

// listStart returns a list's JSON up to its first item.
func (ep *endpoint) listStart(meta *listMeta) []byte {
	b := append(make([]byte, 0, 256), `{"kind":"`...)
	b = append(b, ep.Kind...)
	b = append(b, `List","apiVersion":"`...)
	b = append(b, ep.GroupVersion().String()...)
	b = append(b, `","metadata":`...)
	b = meta.appendTo(b)
	return append(b, `,"items":[`...)
}

// joinList writes a list as JSON: the items' bytes, with commas between them.
func joinList(w http.ResponseWriter, r *http.Request, out *output, start []byte, items []storage.Item) {
	const end = "]}\n"
	size := len(start) + len(end)
	for i := range items {
		size += len(items[i].Value) + 1
	}
	if len(items) > 0 {
		size--
	}
	h := w.Header()
	h["Content-Type"] = contentTypes[formatJSON]
	h["Cache-Control"] = noCache
	var to io.Writer = w
	if compress(r, out, size) {
		z := startGzip(w, http.StatusOK)
		defer stopGzip(z)
		to = z
	} else {
		h["Content-Length"] = []string{strconv.Itoa(size)}
		w.WriteHeader(http.StatusOK)
	}

	// A write of many items costs as much as a write of one.
	const chunk = 256 << 10
	buf := buffers.get()
	defer buffers.put(buf)
	b := append((*buf)[:0], start...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, items[i].Value...)
		if len(b) >= chunk {
			if _, err := to.Write(b); err != nil {
				*buf = b
				return
			}
			b = b[:0]
		}
	}
	b = append(b, end...)
	to.Write(b) //nolint:errcheck // the client is gone
	*buf = b
}

// encodeList returns documents as a list in the form of an answer.
func (ep *endpoint) encodeList(out *output, meta listMeta, docs []document) ([]byte, error) {
	switch {
	case out.shape == asTable:
		b, err := ep.table(out, meta, docs)
		if err != nil {
			return nil, err
		}
		return finish(out, b)
	case out.format == formatProtobuf:
		return ep.protobufList(out, meta, docs)
	}
	var b []byte
	if out.shape == asMetadata {
		b = append(b, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/`+out.version+`","metadata":`...)
		b = append(meta.appendTo(b), `,"items":[`...)
	} else {
		b = ep.listStart(&meta)
	}
	start := len(b)
	for i := range docs {
		if i > 0 {
			b = append(b, ',')
		}
		if i == sampled {
			b = growLike(b, len(b)-start, len(docs))
		}
		if out.shape == asMetadata {
			b = appendPartial(b, docs[i].value, out.version)
		} else {
			b = append(b, docs[i].value...)
		}
	}
	return finish(out, append(b, "]}"...))
}

// protobufList returns documents as a list message: metadata is field 1,
// items are field 2, as in all lists of Kubernetes.
func (ep *endpoint) protobufList(out *output, meta listMeta, docs []document) ([]byte, error) {
	lm := meta.object()
	head, err := lm.Marshal()
	if err != nil {
		return nil, err
	}
	raw := appendField(nil, 1, head)
	start := len(raw)
	for i := range docs {
		if i == sampled {
			raw = growLike(raw, len(raw)-start, len(docs))
		}
		_, _, item, err := ep.marshal(out, docs[i])
		if err != nil {
			return nil, err
		}
		raw = appendField(raw, 2, item)
	}
	if out.shape == asMetadata {
		return envelope("meta.k8s.io/"+out.version, "PartialObjectMetadataList", raw)
	}
	return envelope(ep.GroupVersion().String(), ep.Kind+"List", raw)
}

// appendField appends a length-delimited protobuf field.
func appendField(b []byte, number byte, value []byte) []byte {
	b = append(b, number<<3|2)
	n := uint64(len(value))
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(append(b, byte(n)), value...)
}
