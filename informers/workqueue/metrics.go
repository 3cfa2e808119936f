package workqueue

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the series of all queues of a process, under the names that
// upstream gives them, with the label "name". A nil *Metrics counts nothing.
type Metrics struct {
	depths              *prometheus.GaugeVec
	addsVec, retriesVec *prometheus.CounterVec
	wait, work          *prometheus.HistogramVec
	unfinished, longest *prometheus.Desc

	mu     sync.Mutex
	queues map[*queueMetrics]struct{} // guarded by mu
}

// NewMetrics registers the series. It returns the registerer's error.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	label := []string{"name"}
	buckets := prometheus.ExponentialBuckets(10e-9, 10, 12)
	m := &Metrics{
		depths: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "workqueue_depth", Help: "Keys that wait for a worker.",
		}, label),
		addsVec: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "workqueue_adds_total", Help: "Keys added, not counting those that waited already.",
		}, label),
		retriesVec: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "workqueue_retries_total", Help: "Keys added with a delay.",
		}, label),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_queue_duration_seconds", Help: "How long keys waited for a worker.", Buckets: buckets,
		}, label),
		work: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workqueue_work_duration_seconds", Help: "How long workers had a key.", Buckets: buckets,
		}, label),
		unfinished: prometheus.NewDesc("workqueue_unfinished_work_seconds",
			"Sum of the time for which workers have had the keys they have now.", label, nil),
		longest: prometheus.NewDesc("workqueue_longest_running_processor_seconds",
			"Longest time for which a worker has had the key it has now.", label, nil),
		queues: map[*queueMetrics]struct{}{},
	}
	for _, c := range []prometheus.Collector{m.depths, m.addsVec, m.retriesVec, m.wait, m.work, running{m}} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// running collects what is computed at the time of asking.
type running struct{ m *Metrics }

func (r running) Describe(ch chan<- *prometheus.Desc) {
	ch <- r.m.unfinished
	ch <- r.m.longest
}

func (r running) Collect(ch chan<- prometheus.Metric) {
	type total struct{ sum, longest time.Duration }
	r.m.mu.Lock()
	all := make([]*queueMetrics, 0, len(r.m.queues))
	for q := range r.m.queues {
		all = append(all, q)
	}
	r.m.mu.Unlock()
	byName := map[string]total{}
	for _, q := range all {
		sum, longest := q.running()
		t := byName[q.name]
		byName[q.name] = total{t.sum + sum, max(t.longest, longest)}
	}
	for name, t := range byName {
		ch <- prometheus.MustNewConstMetric(r.m.unfinished, prometheus.GaugeValue, t.sum.Seconds(), name)
		ch <- prometheus.MustNewConstMetric(r.m.longest, prometheus.GaugeValue, t.longest.Seconds(), name)
	}
}

// queueMetrics are the series of one queue; nil counts nothing.
type queueMetrics struct {
	m          *Metrics
	name       string
	running    func() (sum, longest time.Duration)
	depthG     prometheus.Gauge
	adds       prometheus.Counter
	retries    prometheus.Counter
	wait, work prometheus.Observer
}

func (m *Metrics) queue(name string, running func() (sum, longest time.Duration)) *queueMetrics {
	if m == nil {
		return nil
	}
	q := &queueMetrics{
		m: m, name: name, running: running,
		depthG: m.depths.WithLabelValues(name), adds: m.addsVec.WithLabelValues(name),
		retries: m.retriesVec.WithLabelValues(name),
		wait:    m.wait.WithLabelValues(name), work: m.work.WithLabelValues(name),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[q] = struct{}{}
	return q
}

func (q *queueMetrics) added() {
	if q != nil {
		q.adds.Inc()
	}
}

func (q *queueMetrics) retried() {
	if q != nil {
		q.retries.Inc()
	}
}

func (q *queueMetrics) depth(n int) {
	if q != nil {
		q.depthG.Set(float64(n))
	}
}

func (q *queueMetrics) got(waited time.Duration, depth int) {
	if q != nil {
		q.wait.Observe(waited.Seconds())
		q.depthG.Set(float64(depth))
	}
}

func (q *queueMetrics) done(worked time.Duration) {
	if q != nil {
		q.work.Observe(worked.Seconds())
	}
}

func (q *queueMetrics) close() {
	if q != nil {
		q.m.mu.Lock()
		defer q.m.mu.Unlock()
		delete(q.m.queues, q)
	}
}
