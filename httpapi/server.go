// Package httpapi is the API server: routes, filters, one file per verb,
// content negotiation, and the one place that turns errors into answers.
package httpapi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/httpapi/review"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
)

// Documents are the descriptions of the API.
type Documents interface {
	registry.Schema
	// Handler serves discovery and OpenAPI under /api, /apis and /openapi.
	Handler() http.Handler
}

// Tokens issues tokens for service accounts.
type Tokens interface {
	// Issue fills in the status of a copy of the request.
	Issue(ctx context.Context, namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// ExtensibleDocuments are Documents that can describe kinds that appear at run
// time, too.
type ExtensibleDocuments interface {
	Documents
	// Extend has the kinds described beside the fixed ones, in place of those
	// of the last call.
	Extend(kinds []openapi.Kind)
}

// A Check is a part of what /livez and /readyz report.
type Check struct {
	Name  string
	Check func(context.Context) error
}

// Config says what a server serves, and how. Store, Resources and Documents
// must be set.
type Config struct {
	// Store keeps the objects. The values that it hands out carry their
	// resourceVersion, as those of the watch cache do: they are written to
	// clients as they are.
	Store     storage.Store
	Resources []*api.Resource
	Documents Documents
	// Dynamic are the kinds that appear at run time; nil means that there are
	// none. Documents describes them if it is ExtensibleDocuments.
	Dynamic *dynamic.Table
	// Authenticator finds out who asks; nil takes everybody for anonymous.
	Authenticator authn.Authenticator
	// Authorizer decides who may do what; nil refuses everything.
	Authorizer authz.Authorizer
	// Admission may change and refuse writes; nil admits everything.
	Admission *admission.Chain
	// Nodes reaches the servers of node agents, over HTTP/1.1 so that
	// connections can be upgraded; nil means that there are none.
	Nodes http.RoundTripper
	// Tokens answers serviceaccounts/token; nil means that there is none.
	Tokens Tokens
	// Answers make the answers of kinds of which nothing is stored, by resource
	// and group ("things.example.com"). Reviews need none: the server knows.
	Answers map[string]registry.Answer
	// Raw are further routes, by method and path ("POST /proa/v1/join"), and
	// subresources by resource and name ("wasmmodules.plugins.proa.io/content").
	Raw map[string]http.Handler
	// Ready are further conditions for /readyz.
	Ready []Check
	// Version is what /version says.
	Version version.Info

	Log zerolog.Logger
	// Metrics is where the server's metrics go and what /metrics shows; nil
	// means a registry of its own.
	Metrics *prometheus.Registry

	// MaxReads and MaxWrites bound how many requests are in work at a time,
	// watches and the like not counted; 0 means 400 and 200, -1 no bound.
	MaxReads, MaxWrites int
	// RequestTimeout bounds the time for one request, watches and the like
	// not counted; 0 means a minute.
	RequestTimeout time.Duration
	// StopGrace is how long requests under way may go on when Serve ends; 0
	// means 10 seconds.
	StopGrace time.Duration
	// MaxBody is the largest body in bytes; 0 means 3 MiB.
	MaxBody int64
	// Bookmarks is the time between bookmarks of a watch; 0 means a minute.
	Bookmarks time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (c *Config) setDefaults() error {
	if c.Store == nil || len(c.Resources) == 0 || c.Documents == nil {
		return errors.New("httpapi: Store, Resources and Documents must be set")
	}
	if c.Authorizer == nil {
		c.Authorizer = authz.Chain{}
	}
	if c.Authenticator == nil {
		c.Authenticator = authn.Chain{}
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.MaxReads == 0 {
		c.MaxReads = 400
	}
	if c.MaxWrites == 0 {
		c.MaxWrites = 200
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = time.Minute
	}
	if c.StopGrace == 0 {
		c.StopGrace = 10 * time.Second
	}
	if c.MaxBody == 0 {
		c.MaxBody = 3 << 20
	}
	if c.Bookmarks == 0 {
		c.Bookmarks = time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// A Server answers the requests to an API. It is an http.Handler.
type Server struct {
	cfg       Config
	endpoints map[string]*endpoint // by group/version/plural
	dynamic   atomic.Pointer[map[string]*endpoint]
	router    chi.Router
	metrics   *metrics
	reviews   *review.Reviewer

	started  atomic.Bool     // the first objects are there
	stopping context.Context //nolint:containedctx // ends when the server begins to stop
	stop     context.CancelFunc
	mu       sync.Mutex     // guards the fact that no stream begins once stop is called
	streams  sync.WaitGroup // watches under way
}

// New returns a server for the configuration.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, endpoints: map[string]*endpoint{}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	var err error
	if s.metrics, err = newMetrics(cfg.Metrics); err != nil {
		return nil, err
	}
	rc := registry.Config{Store: cfg.Store, Schema: cfg.Documents, Admission: cfg.Admission, Now: cfg.Now}
	for _, row := range cfg.Resources {
		s.endpoints[row.Group+"/"+row.Version+"/"+row.Plural] = newEndpoint(row, rc)
	}
	s.reviews = review.New(review.Config{Authenticator: cfg.Authenticator, Authorizer: cfg.Authorizer})
	s.router = s.routes()
	if cfg.Dynamic != nil {
		cfg.Dynamic.OnChange(func(set *dynamic.Set) { s.setDynamic(set, rc) })
	}
	return s, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }
