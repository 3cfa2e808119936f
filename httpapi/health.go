package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// mountHealth mounts the paths that say how the server itself does.
func (s *Server) mountHealth(r chi.Router) {
	live := []Check{{Name: "ping", Check: func(context.Context) error { return nil }}}
	ready := append(append([]Check(nil), live...), Check{Name: "storage", Check: s.storageAnswers}, Check{Name: "start", Check: s.hasStarted})
	ready = append(ready, s.cfg.Ready...)
	ready = append(ready, Check{Name: "shutdown", Check: s.isStopping})
	for path, checks := range map[string][]Check{"/livez": live, "/healthz": live, "/readyz": ready} {
		r.Get(path, s.health(strings.Trim(path, "/"), checks))
		r.Get(path+"/{check}", s.health(strings.Trim(path, "/"), checks))
	}
	r.Get("/version", s.version)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{}))

	r.Get("/debug/pprof/", pprof.Index)
	r.Get("/debug/pprof/cmdline", pprof.Cmdline)
	r.Get("/debug/pprof/profile", pprof.Profile)
	r.Get("/debug/pprof/symbol", pprof.Symbol)
	r.Get("/debug/pprof/trace", pprof.Trace)
	r.Get("/debug/pprof/{profile}", pprof.Index)
}

// storageWait is how long /readyz waits for the store.
const storageWait = 2 * time.Second

// storageAnswers asks the store itself, not its cache: reads may go on for as
// long as it is away, but a server that cannot write should get no new work.
func (s *Server) storageAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storageWait)
	defer cancel()
	_, err := s.cfg.Store.Current(ctx)
	return err
}

func (s *Server) hasStarted(context.Context) error {
	if !s.started.Load() {
		return errors.New("the first namespaces are not there yet")
	}
	return nil
}

func (s *Server) isStopping(context.Context) error {
	if s.stopping.Err() != nil {
		return errors.New("the server is stopping")
	}
	return nil
}

// health answers with the outcome of checks: ok, or which of them fail.
func (s *Server) health(name string, checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := exchangeOf(w).query
		only := chi.URLParam(r, "check")
		var report strings.Builder
		healthy, known := true, only == ""
		for _, c := range checks {
			if only != "" && c.Name != only {
				continue
			}
			known = true
			if slices.Contains(q["exclude"], c.Name) {
				fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.Name)
				continue
			}
			if err := c.Check(r.Context()); err != nil {
				healthy = false
				// The reason is for the log: anybody may ask.
				s.cfg.Log.Debug().Err(err).Str("check", c.Name).Str("endpoint", name).Msg("health check failed")
				fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", c.Name)
				continue
			}
			fmt.Fprintf(&report, "[+]%s ok\n", c.Name)
		}
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h["Cache-Control"] = noCache
		_, verbose := q["verbose"]
		switch {
		case !known:
			s.fail(w, r, errNoResource)
		case !healthy:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "%s%s check failed\n", report.String(), name) // the client is gone
		case verbose:
			fmt.Fprintf(w, "%s%s check passed\n", report.String(), name) // the client is gone
		default:
			w.Write([]byte("ok")) //nolint:errcheck // the client is gone
		}
	}
}

// version answers GET /version.
func (s *Server) version(w http.ResponseWriter, r *http.Request) {
	body, err := json.MarshalIndent(s.cfg.Version, "", "  ")
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header()["Content-Type"] = contentTypes[formatJSON]
	w.Header()["Cache-Control"] = noCache
	w.Write(body) //nolint:errcheck // the client is gone
}
