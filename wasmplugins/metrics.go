package wasmplugins

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// hostMetrics are the metrics of all plugins.
type hostMetrics struct {
	duration *prometheus.HistogramVec
	fuel     *prometheus.CounterVec
	memory   *prometheus.GaugeVec
	denials  *prometheus.CounterVec
	failures *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*hostMetrics, error) {
	m := &hostMetrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "proa_plugin_admission_duration_seconds", Help: "Time that an admission plugin took to judge a request.",
			Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
		}, []string{"plugin", "phase"}),
		fuel:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "proa_plugin_admission_fuel_total", Help: "Metered units that an admission plugin has used."}, []string{"plugin"}),
		memory:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "proa_plugin_memory_bytes", Help: "Linear memory of an admission plugin at the end of its last call."}, []string{"plugin"}),
		denials:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "proa_plugin_admission_denials_total", Help: "Requests that an admission plugin has refused."}, []string{"plugin"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "proa_plugin_admission_failures_total", Help: "Calls of an admission plugin that ended without an answer."}, []string{"plugin", "reason"}),
	}
	if r != nil {
		for _, c := range []prometheus.Collector{m.duration, m.fuel, m.memory, m.denials, m.failures} {
			if err := r.Register(c); err != nil {
				return nil, fmt.Errorf("register metrics of plugins: %w", err)
			}
		}
	}
	return m, nil
}

// pluginMetrics are those of one plugin, looked up once.
type pluginMetrics struct {
	mutate, validate prometheus.Observer
	fuel             prometheus.Counter
	memory           prometheus.Gauge
	denials          prometheus.Counter
	failures         *prometheus.CounterVec
}

func (m *hostMetrics) plugin(name string) *pluginMetrics {
	return &pluginMetrics{
		mutate:   m.duration.WithLabelValues(name, abi.PhaseMutate),
		validate: m.duration.WithLabelValues(name, abi.PhaseValidate),
		fuel:     m.fuel.WithLabelValues(name),
		memory:   m.memory.WithLabelValues(name),
		denials:  m.denials.WithLabelValues(name),
		failures: m.failures.MustCurryWith(prometheus.Labels{"plugin": name}),
	}
}

// forget drops the metrics of a plugin that is gone.
func (m *hostMetrics) forget(name string) {
	l := prometheus.Labels{"plugin": name}
	m.duration.DeletePartialMatch(l)
	m.fuel.DeletePartialMatch(l)
	m.memory.DeletePartialMatch(l)
	m.denials.DeletePartialMatch(l)
	m.failures.DeletePartialMatch(l)
}

func (m *pluginMetrics) observe(phase string, took time.Duration, u engine.Usage) {
	o := m.validate
	if phase == abi.PhaseMutate {
		o = m.mutate
	}
	o.Observe(took.Seconds())
	m.fuel.Add(float64(max(u.Fuel, 0)))
	if u.Memory > 0 {
		m.memory.Set(float64(u.Memory))
	}
}

func (m *pluginMetrics) failure(reason string) { m.failures.WithLabelValues(reason).Inc() }
