package scheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// The metrics have the names and labels that dashboards for Kubernetes read.
func TestMetrics(t *testing.T) {
	transport := startAPI(t)
	rest := newREST(t, transport)
	create(t, rest, testNode("n1", "4", "10"))
	reg := prometheus.NewRegistry()
	s := startScheduler(t, transport, Config{Queue: fast, Metrics: reg})
	create(t, rest, testPod("fits", "1"))
	create(t, rest, testPod("big", "9"))
	eventually(t, "one is bound, the other not", 10*time.Second, func() bool {
		return s.attempts(t, resultScheduled) == 1 && s.attempts(t, resultUnschedulable) >= 1
	})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.Metric {
			line := f.GetName() + "{"
			for _, l := range m.Label {
				line += fmt.Sprintf("%s=%q,", l.GetName(), l.GetValue())
			}
			got = append(got, line+"}")
		}
	}
	want := []string{
		`scheduler_cache_size{type="assumed_pods",}`,
		`scheduler_cache_size{type="nodes",}`,
		`scheduler_cache_size{type="pods",}`,
		`scheduler_pending_pods{queue="active",}`,
		`scheduler_pending_pods{queue="backoff",}`,
		`scheduler_pending_pods{queue="gated",}`,
		`scheduler_pending_pods{queue="unschedulable",}`,
		`scheduler_pod_scheduling_attempts{}`,
		`scheduler_pod_scheduling_sli_duration_seconds{attempts="1",}`,
		`scheduler_queue_incoming_pods_total{event="PodAdd",queue="active",}`,
		`scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable",}`,
		`scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled",}`,
		`scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable",}`,
		`scheduler_scheduling_algorithm_duration_seconds{}`,
		`scheduler_scheduling_attempt_duration_seconds{profile="default-scheduler",result="scheduled",}`,
		`scheduler_scheduling_attempt_duration_seconds{profile="default-scheduler",result="unschedulable",}`,
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no %s", w)
		}
	}
	if t.Failed() {
		t.Log(cmp.Diff(want, got))
	}
}
