package httpapi

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proa-project/proa/api"
)

// metrics are what the server counts, under upstream's names.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	reads     prometheus.Gauge
	writes    prometheus.Gauge
	watches   prometheus.Gauge

	cells sync.Map // cellKey -> *cell
}

// A cellKey is what requests are counted by.
type cellKey struct {
	resource          *api.Resource
	subresource, verb string
	scope             string
	code              int
	dryRun            bool
}

// A cell is where the requests of one key are counted.
type cell struct {
	requests  prometheus.Counter
	durations prometheus.Observer
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests by what they asked for and how they were answered.",
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "Time from the arrival of a request to the end of its answer, in seconds; without watches and the like.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Watches under way.",
		}),
	}
	inflight := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "apiserver_current_inflight_requests", Help: "Requests in work, without watches and the like.",
	}, []string{"request_kind"})
	m.reads, m.writes = inflight.WithLabelValues("readOnly"), inflight.WithLabelValues("mutating")
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.watches, inflight} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// observe counts a request.
func (m *metrics) observe(x *exchange, took time.Duration) {
	info := &x.state.Info
	key := cellKey{resource: info.Resource, subresource: info.Subresource, verb: info.Verb, code: x.code}
	if info.Resource == nil {
		key.verb = knownMethod(info.Verb)
	} else {
		key.scope = scopeOf(info.Name, info.Namespace)
		if info.Resource.Subresource(info.Subresource) == nil {
			key.subresource = "" // whatever the client has made up
		}
		key.dryRun = len(x.query["dryRun"]) > 0
	}
	v, ok := m.cells.Load(key)
	if !ok {
		v, _ = m.cells.LoadOrStore(key, m.cell(key))
	}
	c, ok := v.(*cell)
	if !ok {
		return
	}
	c.requests.Inc()
	if !x.long {
		c.durations.Observe(took.Seconds())
	}
}

func (m *metrics) cell(k cellKey) *cell {
	labels := []string{metricVerb(k.verb), "", "", "", "", k.subresource, k.scope, "apiserver"}
	if k.dryRun {
		labels[1] = "All"
	}
	if k.resource != nil {
		labels[2], labels[3], labels[4] = k.resource.Group, k.resource.Version, k.resource.Plural
	}
	return &cell{
		durations: m.durations.WithLabelValues(labels...),
		requests:  m.requests.WithLabelValues(append(labels, strconv.Itoa(k.code))...),
	}
}

func scopeOf(name, namespace string) string {
	switch {
	case name != "":
		return "resource"
	case namespace != "":
		return "namespace"
	default:
		return "cluster"
	}
}

// metricVerb returns a verb as upstream's metrics show it.
func metricVerb(verb string) string {
	switch verb {
	case "create":
		return "POST"
	case "update":
		return "PUT"
	default:
		return strings.ToUpper(verb)
	}
}

// knownMethod keeps clients from making up labels.
func knownMethod(m string) string {
	switch m {
	case "get", "head", "post", "put", "patch", "delete", "options", "connect":
		return m
	default:
		return "other"
	}
}
