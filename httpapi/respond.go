package httpapi

import (
	"compress/gzip"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/proa-project/proa/httpapi/registry"
)

// gzipFrom is the size of a body in bytes from which it is compressed.
const gzipFrom = 128 << 10

// writeDocument answers with one object.
func writeDocument(w http.ResponseWriter, r *http.Request, c *call, out *output, code int, d document) error {
	body, err := c.encode(out, d)
	if err != nil {
		return err
	}
	writeBody(w, r, out, code, body)
	return nil
}

// writeResult answers with the outcome of a write.
func writeResult(w http.ResponseWriter, r *http.Request, c *call, rc *registry.Call, out *output, code int, res registry.Result) error {
	writeWarnings(w, rc.Warnings)
	return writeDocument(w, r, c, out, code, document{value: res.Value, object: res.Object})
}

// writeBody writes a whole answer.
func writeBody(w http.ResponseWriter, r *http.Request, out *output, code int, body []byte) {
	newline := out.format == formatJSON && !out.pretty
	h := w.Header()
	h["Content-Type"] = contentTypes[out.format]
	h["Cache-Control"] = noCache
	if compress(r, out, len(body)) {
		z := startGzip(w, code)
		defer stopGzip(z)
		z.Write(body) //nolint:errcheck // the client is gone
		return
	}
	n := len(body)
	if newline {
		n++
	}
	h["Content-Length"] = []string{strconv.Itoa(n)}
	w.WriteHeader(code)
	if newline && n <= 32<<10 {
		// One write is one packet.
		b := buffers.get()
		defer buffers.put(b)
		*b = append(append((*b)[:0], body...), '\n')
		w.Write(*b) //nolint:errcheck // the client is gone
		return
	}
	w.Write(body) //nolint:errcheck // the client is gone
	if newline {
		w.Write([]byte("\n")) //nolint:errcheck // the client is gone
	}
}

// Header values that all answers share. They must not be changed.
var (
	contentTypes = [...][]string{{formatJSON.mediaType()}, {formatYAML.mediaType()}, {formatProtobuf.mediaType()}} //nolint:gochecknoglobals // constants in all but name
	noCache      = []string{"no-cache, private"}                                                                   //nolint:gochecknoglobals // as above
)

// compress reports whether a body is worth compressing: not for a client on
// the same machine, whose connection is faster than any compression.
func compress(r *http.Request, out *output, size int) bool {
	return out.gzip && size >= gzipFrom && !isLocal(r.RemoteAddr)
}

func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

var gzips = sync.Pool{New: func() any { //nolint:gochecknoglobals // a pool is of use only if it is shared
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return z
}}

func startGzip(w http.ResponseWriter, code int) *gzip.Writer {
	h := w.Header()
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	h.Del("Content-Length")
	w.WriteHeader(code)
	z, _ := gzips.Get().(*gzip.Writer)
	z.Reset(w)
	return z
}

func stopGzip(z *gzip.Writer) {
	z.Close() //nolint:errcheck // the client is gone
	gzips.Put(z)
}

// writeWarnings sets the Warning headers of an answer: each text once, and not
// more than clients can be expected to read.
func writeWarnings(w http.ResponseWriter, warnings []string) {
	const most = 4096
	total := 0
	for i, text := range warnings {
		if slices.Contains(warnings[:i], text) {
			continue
		}
		if len(text) > 256 {
			text = text[:253] + "..."
		}
		value, err := utilnet.NewWarningHeader(299, "-", text)
		if err != nil {
			continue // not fit for a header
		}
		if total += len(value); total > most {
			return
		}
		w.Header().Add("Warning", value)
	}
}

// buffers are for answers that are put together in memory.
var buffers bufferPool //nolint:gochecknoglobals // as above

type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, 32<<10)
	return &b
}

func (p *bufferPool) put(b *[]byte) {
	if cap(*b) <= 1<<20 {
		*b = (*b)[:0]
		p.pool.Put(b)
	}
}
