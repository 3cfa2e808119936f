package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
)

// readBody reads the body of a request, which must not be larger than is
// allowed.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	limit := s.cfg.MaxBody
	tooLarge := apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	// A client that sends its body drop by drop does not hold on to the server
	// for ever. Where there is no connection there is no deadline.
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.RequestTimeout)) //nolint:errcheck // see above
	body := http.MaxBytesReader(exchangeOf(w).ResponseWriter, r.Body, limit)
	var buf bytes.Buffer
	if n := r.ContentLength; n > 0 {
		buf.Grow(int(n) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(body); err != nil {
		if tooMany := (*http.MaxBytesError)(nil); errors.As(err, &tooMany) {
			return nil, tooLarge
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, badRequest("the body ended early: %v", err)
		}
		return nil, badRequest("read the body: %v", err)
	}
	return buf.Bytes(), nil
}

// decode reads the body of a request into an object.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, into runtime.Object, strictness api.Strictness) (warnings []string, err error) {
	body, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	return api.Decode(body, r.Header.Get("Content-Type"), into, strictness)
}
