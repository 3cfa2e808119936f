package etcd

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts and times requests to etcd. A nil metrics does nothing.
type metrics struct {
	registry prometheus.Registerer
	seconds  *prometheus.HistogramVec
	total    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	extra    []prometheus.Collector
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	if registry == nil {
		return nil, nil //nolint:nilnil // nil metrics do nothing
	}
	m := &metrics{
		registry: registry,
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "etcd_request_duration_seconds",
			Help:    "Latency of requests to etcd by operation.",
			Buckets: []float64{0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, []string{"operation"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_requests_total",
			Help: "Requests to etcd by operation.",
		}, []string{"operation"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_request_errors_total",
			Help: "Requests to etcd that failed, by operation.",
		}, []string{"operation"}),
	}
	for _, c := range []prometheus.Collector{m.seconds, m.total, m.errors} {
		if err := m.register(c); err != nil {
			m.close()
			return nil, err
		}
	}
	return m, nil
}

// register adds a collector that goes when the store closes.
func (m *metrics) register(c prometheus.Collector) error {
	if m == nil {
		return nil
	}
	if err := m.registry.Register(c); err != nil {
		return err
	}
	m.extra = append(m.extra, c)
	return nil
}

// start begins a request; the function that it returns ends it.
func (m *metrics) start(operation string) func(error) {
	if m == nil {
		return func(error) {}
	}
	begin := time.Now()
	return func(err error) {
		m.seconds.WithLabelValues(operation).Observe(time.Since(begin).Seconds())
		m.total.WithLabelValues(operation).Inc()
		if err != nil {
			m.errors.WithLabelValues(operation).Inc()
		}
	}
}

func (m *metrics) close() {
	if m == nil {
		return
	}
	for _, c := range m.extra {
		m.registry.Unregister(c)
	}
}
