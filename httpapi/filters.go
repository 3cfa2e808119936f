package httpapi

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/proa-project/proa/httpapi/request"
)

// filters are what each request passes through, from the outside to the
// inside.
func (s *Server) filters() []func(http.Handler) http.Handler {
	return []func(http.Handler) http.Handler{
		s.begin,
		s.recover,
		s.observe,
		s.parse,
		s.limit,
		s.authenticate,
		s.impersonate,
		s.authorize,
	}
}

// begin gives the request an exchange and an id.
func (s *Server) begin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, start: time.Now()}
		x.state.AuditID = r.Header.Get("Audit-Id")
		if n := len(x.state.AuditID); n == 0 || n > 64 {
			x.state.AuditID = uuid.NewString()
		}
		w.Header()["Audit-Id"] = []string{x.state.AuditID}
		next.ServeHTTP(x, r.WithContext(request.With(r.Context(), &x.state)))
	})
}

// recover answers a request whose handler panicked.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p) // the handler gives up on the connection on purpose
			}
			x := exchangeOf(w)
			s.cfg.Log.Error().Interface("panic", p).Str("method", r.Method).Str("path", r.URL.Path).
				Str("audit_id", x.state.AuditID).Bytes("stack", debug.Stack()).Msg("handler panicked")
			if x.code != 0 {
				panic(http.ErrAbortHandler) // too late to say anything else
			}
			s.fail(w, r, errPanicked)
		}()
		next.ServeHTTP(w, r)
	})
}

// observe counts and logs requests.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(w)
		defer func() {
			took := time.Since(x.start)
			s.metrics.observe(x, took)
			e := s.cfg.Log.Debug()
			if !e.Enabled() {
				return
			}
			user := ""
			if x.state.User != nil {
				user = x.state.User.Name
			}
			e.Str("method", r.Method).Str("path", r.URL.Path).Str("verb", x.state.Info.Verb).Int("code", x.code).
				Int64("bytes", x.bytes).Dur("took", took).Str("user", user).Str("audit_id", x.state.AuditID).
				Str("user_agent", r.UserAgent()).Str("remote", r.RemoteAddr).Msg("request")
		}()
		next.ServeHTTP(w, r)
	})
}

// limit refuses requests when too many are in work.
func (s *Server) limit(next http.Handler) http.Handler {
	reads, writes := newGate(s.cfg.MaxReads), newGate(s.cfg.MaxWrites)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(w)
		if x.long || isHealth(x.state.Info.Path) {
			next.ServeHTTP(w, r)
			return
		}
		gate, gauge := writes, s.metrics.writes
		switch x.state.Info.Verb {
		case "get", "list", "watch":
			gate, gauge = reads, s.metrics.reads
		}
		if !gate.enter() {
			s.fail(w, r, errTooMany)
			return
		}
		defer gate.leave()
		gauge.Inc()
		defer gauge.Dec()

		ctx, cancel := context.WithTimeout(r.Context(), s.timeoutOf(x))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// isHealth reports whether a path must be answered even if nothing else is.
func isHealth(path string) bool {
	return path == "/livez" || path == "/readyz" || path == "/healthz"
}

// timeoutOf returns how long a request may take: less than usual if the
// client wants so.
func (s *Server) timeoutOf(x *exchange) time.Duration {
	if t := x.query.Get("timeout"); t != "" {
		if d, err := time.ParseDuration(t); err == nil && d > 0 {
			return min(d, s.cfg.RequestTimeout)
		}
	}
	return s.cfg.RequestTimeout
}

// A gate lets so many in at a time. A nil gate lets in all.
type gate chan struct{}

func newGate(n int) gate {
	if n < 0 {
		return nil
	}
	return make(gate, n)
}

func (g gate) enter() bool {
	if g == nil {
		return true
	}
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g gate) leave() {
	if g != nil {
		<-g
	}
}
