package scheduling

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/proa-project/proa/scheduling/queue"
)

// metrics have the names of Kubernetes' scheduler, so that its dashboards work.
type metrics struct {
	attempts  *prometheus.CounterVec   // by profile, result
	attempt   *prometheus.HistogramVec // by profile, result
	algorithm prometheus.Histogram
	sli       *prometheus.HistogramVec // by attempts
	tries     prometheus.Histogram
	incoming  *prometheus.CounterVec // by queue, event
}

// Results of an attempt.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultError         = "error"
)

func newMetrics(reg prometheus.Registerer, q func() *queue.Queue, c *cache) (*metrics, error) {
	const ns = "scheduler"
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Name: "schedule_attempts_total", Help: "Attempts to schedule a pod, by result.",
		}, []string{"profile", "result"}),
		attempt: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "scheduling_attempt_duration_seconds", Help: "Time of an attempt: the choice of a node and the binding.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"profile", "result"}),
		algorithm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Name: "scheduling_algorithm_duration_seconds", Help: "Time of the choice of a node.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
		sli: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: ns, Name: "pod_scheduling_sli_duration_seconds", Help: "Time from when a pod first may be scheduled until it is bound.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
		}, []string{"attempts"}),
		tries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: ns, Name: "pod_scheduling_attempts", Help: "Attempts that a pod took until it was bound.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		}),
		incoming: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: ns, Name: "queue_incoming_pods_total", Help: "Pods that came into a queue, by what brought them.",
		}, []string{"queue", "event"}),
	}
	if reg == nil {
		return m, nil
	}
	collectors := []prometheus.Collector{m.attempts, m.attempt, m.algorithm, m.sli, m.tries, m.incoming}
	for _, p := range []queue.Place{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated} {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: ns, Name: "pending_pods", Help: "Pods that wait for a node, by queue.",
			ConstLabels: prometheus.Labels{"queue": p.String()},
		}, func() float64 { return float64(q().Len(p)) }))
	}
	for i, what := range []string{"nodes", "pods", "assumed_pods"} {
		collectors = append(collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: ns, Name: "cache_size", Help: "Nodes, pods and assumed pods in the cache.",
			ConstLabels: prometheus.Labels{"type": what},
		}, func() float64 {
			nodes, pods, assumed := c.sizes()
			return float64([...]int{nodes, pods, assumed}[i])
		}))
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) done(profile, result string, start time.Time) {
	m.attempts.WithLabelValues(profile, result).Inc()
	m.attempt.WithLabelValues(profile, result).Observe(time.Since(start).Seconds())
}

func (m *metrics) scheduled(profile string, e *queue.Entry, start time.Time) {
	m.done(profile, resultScheduled, start)
	m.tries.Observe(float64(e.Attempts))
	label := "15+"
	if e.Attempts < 15 {
		label = strconv.Itoa(e.Attempts)
	}
	m.sli.WithLabelValues(label).Observe(time.Since(e.Added).Seconds())
}
