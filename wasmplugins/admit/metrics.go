package admit

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what admission plugins say. A nil *Metrics counts nothing.
type Metrics struct{ answers *prometheus.CounterVec }

// NewMetrics registers the series. It returns the registerer's error.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{answers: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "proa_plugin_admission_answers_total", Help: "Answers of an admission plugin.",
	}, []string{"plugin", "answer"})}
	if err := reg.Register(m.answers); err != nil {
		return nil, fmt.Errorf("register metrics of admission plugins: %w", err)
	}
	return m, nil
}

type pluginMetrics struct{ allowed, changed, denied, failed prometheus.Counter }

func (m *Metrics) of(name string) *pluginMetrics {
	if m == nil {
		return nil
	}
	return &pluginMetrics{
		allowed: m.answers.WithLabelValues(name, "allowed"), changed: m.answers.WithLabelValues(name, "changed"),
		denied: m.answers.WithLabelValues(name, "denied"), failed: m.answers.WithLabelValues(name, "failed"),
	}
}

func (m *pluginMetrics) answered(a answer) {
	switch {
	case m == nil:
	case a.err != nil:
		m.failed.Inc()
	case !a.reply.Allowed:
		m.denied.Inc()
	case a.reply.Patch != nil || a.reply.Object != nil:
		m.changed.Inc()
	default:
		m.allowed.Inc()
	}
}
