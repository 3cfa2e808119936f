package library

import (
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proa-project/proa/wasmplugins/engine"
)

// metrics are those of all modules, with the label "module".
type metrics struct {
	bytes    *prometheus.GaugeVec
	compile  *prometheus.GaugeVec
	compiles *prometheus.CounterVec
	pulls    *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		bytes:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "proa_plugin_module_size_bytes", Help: "Size of a module's code."}, []string{"module"}),
		compile:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "proa_plugin_module_compile_seconds", Help: "Time that the last compilation of a module took, or that reading it from the cache took."}, []string{"module"}),
		compiles: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "proa_plugin_module_compilations_total", Help: "Compilations of a module, by whether the cache on disk had the work done."}, []string{"module", "cached"}),
		pulls:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "proa_plugin_module_pulls_total", Help: "Attempts to pull a module's image, by whether they failed."}, []string{"module", "outcome"}),
	}
	if r != nil {
		for _, c := range []prometheus.Collector{m.bytes, m.compile, m.compiles, m.pulls} {
			if err := r.Register(c); err != nil {
				return nil, fmt.Errorf("register metrics of modules: %w", err)
			}
		}
	}
	return m, nil
}

func (m *metrics) compiled(name string, code *engine.Code) {
	m.compile.WithLabelValues(name).Set(code.CompileTime.Seconds())
	m.compiles.WithLabelValues(name, strconv.FormatBool(code.CacheHit)).Inc()
}

func (m *metrics) size(name string, n int64) { m.bytes.WithLabelValues(name).Set(float64(n)) }

func (m *metrics) pulled(name string, err error) {
	outcome := "success"
	if err != nil {
		outcome = "failure"
	}
	m.pulls.WithLabelValues(name, outcome).Inc()
}

// forget drops the metrics of a module that is gone.
func (m *metrics) forget(name string) {
	l := prometheus.Labels{"module": name}
	m.bytes.DeletePartialMatch(l)
	m.compile.DeletePartialMatch(l)
	m.compiles.DeletePartialMatch(l)
	m.pulls.DeletePartialMatch(l)
}
