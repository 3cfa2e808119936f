package httpapi

import (
	"net/http"
	"net/url"
	"time"

	"github.com/proa-project/proa/httpapi/request"
)

// An exchange is one request and the answer to it, as the filters see it. It
// is the http.ResponseWriter of everything behind the first filter.
type exchange struct {
	http.ResponseWriter

	state request.State
	query url.Values
	start time.Time
	// dynamic is the endpoint if it is of a kind that is not in the fixed table.
	dynamic *endpoint
	// long says that the request may take as long as it wants: a watch, a log
	// that is followed, an upgraded connection.
	long bool

	code  int // 0 until the header is written
	bytes int64
}

// exchangeOf returns the exchange behind a ResponseWriter that the filters
// have handed on.
func exchangeOf(w http.ResponseWriter) *exchange {
	x, ok := w.(*exchange)
	if !ok {
		panic("httpapi: a handler was called without the filters")
	}
	return x
}

// WriteHeader notes the code.
func (x *exchange) WriteHeader(code int) {
	if x.code == 0 || x.code < http.StatusOK {
		x.code = code
	}
	x.ResponseWriter.WriteHeader(code)
}

// Write counts.
func (x *exchange) Write(p []byte) (int, error) {
	if x.code == 0 {
		x.code = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
}

// Flush sends what has been written, if the connection can do that.
func (x *exchange) Flush() {
	if f, ok := x.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }
