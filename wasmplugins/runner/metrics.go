package runner

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proa-project/proa/wasmplugins/engine"
)

// Metrics are those of the plugins of all kinds. A nil *Metrics counts nothing.
type Metrics struct {
	duration *prometheus.HistogramVec
	fuel     *prometheus.CounterVec
	memory   *prometheus.GaugeVec
	calls    *prometheus.CounterVec
	failures *prometheus.CounterVec
	breaker  *prometheus.GaugeVec
}

// NewMetrics registers the series. It returns the registerer's error.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	labels := []string{"kind", "plugin"}
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "proa_plugin_call_duration_seconds", Help: "Time that calls of a plugin took.",
			Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
		}, labels),
		fuel:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "proa_plugin_fuel_total", Help: "Metered units that a plugin has used."}, labels),
		memory:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "proa_plugin_memory_bytes", Help: "Linear memory of a plugin at the end of its last call."}, labels),
		calls:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "proa_plugin_host_calls_total", Help: "Host calls that a plugin has made."}, labels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "proa_plugin_failures_total", Help: "Calls of a plugin that ended without an answer."}, append(labels, "reason")),
		breaker:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "proa_plugin_breaker_open", Help: "Whether a plugin is not called because too many calls have failed."}, labels),
	}
	for _, c := range []prometheus.Collector{m.duration, m.fuel, m.memory, m.calls, m.failures, m.breaker} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of plugins: %w", err)
		}
	}
	return m, nil
}

// metrics are those of one plugin, looked up once. Nil counts nothing.
type metrics struct {
	duration prometheus.Observer
	fuel     prometheus.Counter
	memory   prometheus.Gauge
	calls    prometheus.Counter
	failures *prometheus.CounterVec
	breaker  prometheus.Gauge
}

func (m *Metrics) of(kind, name string) *metrics {
	if m == nil {
		return nil
	}
	return &metrics{
		duration: m.duration.WithLabelValues(kind, name), fuel: m.fuel.WithLabelValues(kind, name), memory: m.memory.WithLabelValues(kind, name),
		calls: m.calls.WithLabelValues(kind, name), breaker: m.breaker.WithLabelValues(kind, name),
		failures: m.failures.MustCurryWith(prometheus.Labels{"kind": kind, "plugin": name}),
	}
}

// forget drops the series of a plugin that is gone.
func (m *Metrics) forget(kind, name string) {
	if m == nil {
		return
	}
	l := prometheus.Labels{"kind": kind, "plugin": name}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.duration, m.fuel, m.memory, m.calls, m.failures, m.breaker} {
		v.DeletePartialMatch(l)
	}
}

func (m *metrics) observe(took time.Duration, u engine.Usage) {
	if m == nil {
		return
	}
	m.duration.Observe(took.Seconds())
	m.fuel.Add(float64(max(u.Fuel, 0)))
	if u.Memory > 0 {
		m.memory.Set(float64(u.Memory))
	}
	if n := len(u.HostCalls); n > 0 {
		m.calls.Add(float64(n))
	}
}

func (m *metrics) failed(reason string) {
	if m != nil {
		m.failures.WithLabelValues(reason).Inc()
	}
}

func (m *metrics) opened(open bool) {
	switch {
	case m == nil:
	case open:
		m.breaker.Set(1)
	default:
		m.breaker.Set(0)
	}
}
