package watchcache

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics tell how the cache does. A nil metrics does nothing.
type metrics struct {
	registry    prometheus.Registerer
	registered  []prometheus.Collector
	events      prometheus.Counter
	sent        prometheus.Counter
	starts      prometheus.Counter
	ended       prometheus.Counter
	waits       prometheus.Histogram
	consistent  *prometheus.CounterVec
	consistentY prometheus.Counter
	consistentN prometheus.Counter
}

func newMetrics(registry prometheus.Registerer, c *Cache) (*metrics, error) {
	if registry == nil {
		return nil, nil //nolint:nilnil // nil metrics do nothing
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		registry: registry,
		events:   counter("apiserver_watch_cache_events_received_total", "Events that the watch cache got from its store."),
		sent:     counter("apiserver_watch_cache_events_dispatched_total", "Events that watchers got from the watch cache."),
		starts:   counter("apiserver_watch_cache_initializations_total", "Times that the watch cache was filled by a list."),
		ended:    counter("apiserver_terminated_watchers_total", "Watchers that ended because they were too slow."),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "apiserver_watch_cache_read_wait_seconds",
			Help:    "Time that fresh reads waited for the watch cache to catch up.",
			Buckets: []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 3},
		}),
		consistent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_cache_consistent_read_total",
			Help: "Fresh reads by whether the watch cache answered them.",
		}, []string{"success"}),
	}
	m.consistentY, m.consistentN = m.consistent.WithLabelValues("true"), m.consistent.WithLabelValues("false")
	m.starts.Inc()
	for _, collector := range []prometheus.Collector{m.events, m.sent, m.starts, m.ended, m.waits, m.consistent, sizes{c}} {
		if err := registry.Register(collector); err != nil {
			m.close()
			return nil, err
		}
		m.registered = append(m.registered, collector)
	}
	return m, nil
}

func (m *metrics) received(n int) {
	if m != nil {
		m.events.Add(float64(n))
	}
}

func (m *metrics) dispatched(n int) {
	if m != nil {
		m.sent.Add(float64(n))
	}
}

func (m *metrics) initialized() {
	if m != nil {
		m.starts.Inc()
	}
}

func (m *metrics) terminated() {
	if m != nil {
		m.ended.Inc()
	}
}

func (m *metrics) waited(d time.Duration) {
	if m != nil {
		m.waits.Observe(d.Seconds())
	}
}

func (m *metrics) consistentRead(success bool) {
	switch {
	case m == nil:
	case success:
		m.consistentY.Inc()
	default:
		m.consistentN.Inc()
	}
}

func (m *metrics) close() {
	if m == nil {
		return
	}
	for _, collector := range m.registered {
		m.registry.Unregister(collector)
	}
}

// sizes reads figures off the present state.
type sizes struct{ c *Cache }

var (
	objectsDesc = prometheus.NewDesc("apiserver_storage_objects", //nolint:gochecknoglobals // a constant in all but name
		"Stored objects by resource.", []string{"resource"}, nil)
	revisionDesc = prometheus.NewDesc("apiserver_watch_cache_resource_version", //nolint:gochecknoglobals // a constant in all but name
		"Revision that the watch cache has come to.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s sizes) Describe(descs chan<- *prometheus.Desc) { descs <- objectsDesc; descs <- revisionDesc }

// Collect implements prometheus.Collector.
func (s sizes) Collect(out chan<- prometheus.Metric) {
	now := s.c.state.Load()
	out <- prometheus.MustNewConstMetric(revisionDesc, prometheus.GaugeValue, float64(now.revision))
	for _, b := range now.buckets {
		resource := strings.Trim(strings.TrimPrefix(b.name, s.c.config.Prefix), "/")
		out <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(b.tree.size), resource)
	}
}
