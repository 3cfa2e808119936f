package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// errAborted is what a caller sees of a handler that gave up on its answer.
var errAborted = errors.New("handler aborted the answer")

// InProcess returns a transport that calls the handler instead of a server: no
// socket, no TLS, the same filters.
//
// Usual requests run on the caller's goroutine, into a buffer. Requests that
// stream (a watch, a log that is followed) run on a goroutine of their own
// that ends with the request's context or when the body is closed; Close waits
// for it. Handlers must therefore return when their context is done. A handler
// that panics fails its request. Connections cannot be upgraded.
func InProcess(h http.Handler) http.RoundTripper { return inProcess{h: h} }

type inProcess struct{ h http.Handler }

// RoundTrip calls the handler.
func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		if req.Body != nil {
			req.Body.Close() //nolint:errcheck // it was not read
		}
		return nil, err
	}
	if streams(req.URL) {
		return t.stream(ctx, req)
	}
	w := &bufferedWriter{header: make(http.Header, 4)}
	err := serve(t.h, w, serverRequest(ctx, req))
	if err != nil {
		return nil, err
	}
	if w.code == 0 {
		w.code = http.StatusOK
	}
	resp := response(req, w.code, w.header)
	resp.Body = &bufferedBody{b: w.b}
	resp.ContentLength = int64(len(w.b))
	return resp, nil
}

// streams tells whether the answer may have no end.
func streams(u *url.URL) bool {
	if u.RawQuery == "" {
		return false
	}
	q := u.Query()
	for _, k := range [...]string{"watch", "follow"} {
		if v, ok := q[k]; ok && v[0] != "false" && v[0] != "0" {
			return true
		}
	}
	return false
}

// A valueless context ends with another but carries none of its values. As over
// a socket, what the caller noted in its context is not the server's business:
// a call made in the midst of a request must not be taken for that request.
type valueless struct{ context.Context } //nolint:containedctx // it is one

// Value returns nil.
func (valueless) Value(any) any { return nil }

// serverRequest is the request as a server would hand it to the handler.
func serverRequest(ctx context.Context, req *http.Request) *http.Request {
	r := req.WithContext(valueless{ctx})
	u := *req.URL
	u.Scheme, u.Host = "", ""
	r.URL = &u
	r.RequestURI = u.RequestURI()
	r.RemoteAddr = "127.0.0.1:0"
	r.GetBody = nil
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.Host == "" {
		r.Host = req.URL.Host
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	return r
}

// serve calls the handler and turns a panic into an error.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		r.Body.Close() //nolint:errcheck // as a server does
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: // recover gives the value itself
			err = errAborted
		default:
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

func response(req *http.Request, code int, h http.Header) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Request: req, ContentLength: -1,
	}
}

// A bufferedWriter collects an answer as a whole.
type bufferedWriter struct {
	header http.Header
	code   int
	b      []byte
}

func (w *bufferedWriter) Header() http.Header { return w.header }

func (w *bufferedWriter) WriteHeader(code int) {
	if w.code != 0 || code < 200 {
		return // only the first final status counts
	}
	w.code = code
	if n, err := strconv.Atoi(w.header.Get("Content-Length")); err == nil && n > 0 && n <= maxAnswer {
		w.b = make([]byte, 0, n)
	}
}

func (w *bufferedWriter) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// Flush does nothing: the answer is handed over when the handler returns.
func (w *bufferedWriter) Flush() {}

// A bufferedBody is the body of an answer that is in memory already.
type bufferedBody struct {
	b []byte
	r int
}

// take hands the unread rest over to the caller.
func (b *bufferedBody) take() []byte {
	rest := b.b[b.r:]
	b.b, b.r = nil, 0
	return rest
}

func (b *bufferedBody) Read(p []byte) (int, error) {
	if b.r == len(b.b) {
		return 0, io.EOF
	}
	n := copy(p, b.b[b.r:])
	b.r += n
	return n, nil
}

func (b *bufferedBody) Close() error { return nil }
