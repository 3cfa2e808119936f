package nodelifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func node(ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.NewTime(epoch)}}
	}
	return n
}

func TestHear(t *testing.T) {
	lease := func(at time.Time) *coordinationv1.Lease {
		m := metav1.NewMicroTime(at)
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &m}}
	}
	n := node(corev1.ConditionTrue)
	h := hear(heartbeat{}, n, nil, epoch)
	if h.at != epoch {
		t.Error("the first look counts as a sign of life")
	}
	later := epoch.Add(time.Minute)
	if h = hear(h, n, nil, later); h.at != epoch {
		t.Error("nothing new is no sign of life")
	}
	// The node's clock may be wrong by hours: only that it moves counts.
	if h = hear(h, n, lease(epoch.Add(-5*time.Hour)), later); h.at != later {
		t.Error("a lease is a sign of life")
	}
	latest := later.Add(time.Minute)
	if h = hear(h, n, lease(epoch.Add(-5*time.Hour)), latest); h.at != later {
		t.Error("the same lease is none")
	}
	if h = hear(h, n, lease(epoch.Add(-4*time.Hour)), latest); h.at != latest {
		t.Error("a renewed lease is one")
	}
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(later)
	if h = hear(h, n, nil, latest.Add(time.Minute)); h.at != latest.Add(time.Minute) {
		t.Error("a status is a sign of life")
	}
}

func TestSilence(t *testing.T) {
	n := node(corev1.ConditionTrue)
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Example", Status: corev1.ConditionTrue})
	got := silence(n, epoch)
	if len(got) != 5 || got[0].Status != corev1.ConditionUnknown || got[0].Reason != "NodeStatusUnknown" ||
		got[1].Status != corev1.ConditionTrue || got[2].Reason != "NodeStatusNeverUpdated" {
		t.Errorf("conditions %+v", got)
	}
	n.Status.Conditions = got
	if again := silence(n, epoch.Add(time.Hour)); again != nil {
		t.Errorf("it flaps: %+v", again)
	}
}

func TestTaints(t *testing.T) {
	words := func(ts []corev1.Taint) []string {
		var out []string
		for _, t := range ts {
			out = append(out, t.Key+":"+string(t.Effect))
		}
		slices.Sort(out)
		return out
	}
	mine := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	old := metav1.NewTime(epoch.Add(-time.Hour))
	for _, tc := range []struct {
		name  string
		node  *corev1.Node
		evict bool
		want  []string
	}{
		{"ready", node(corev1.ConditionTrue), true, nil},
		{"not ready", node(corev1.ConditionFalse), true, []string{"node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/not-ready:NoSchedule"}},
		{"silent", node(corev1.ConditionUnknown), true, []string{"node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}},
		{"silent, and so are all", node(corev1.ConditionUnknown), false, []string{"node.kubernetes.io/unreachable:NoSchedule"}},
		{"new", node(""), true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := tc.node
			n.Spec.Taints = []corev1.Taint{mine, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &old}, {Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}}
			got := taints(n, tc.evict, epoch)
			if w := words(got); !slices.Equal(w, append(slices.Clone(tc.want), "team:NoSchedule")) {
				t.Errorf("taints %v, want %v and the user's", w, tc.want)
			}
			for _, x := range got {
				if x.Key == corev1.TaintNodeUnreachable && x.Effect == corev1.TaintEffectNoExecute && !x.TimeAdded.Equal(&old) {
					t.Error("the time when the taint was added has changed")
				}
			}
			n.Spec.Taints = got
			if again := taints(n, tc.evict, epoch.Add(time.Hour)); !sameTaints(again, got) {
				t.Errorf("it flaps: %v", again)
			}
		})
	}
}

func TestEviction(t *testing.T) {
	sec := func(n int64) *int64 { return &n }
	added := metav1.NewTime(epoch.Add(-10 * time.Second))
	unreachable := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	mine := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	exists := func(key string, s *int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, TolerationSeconds: s}
	}
	for _, tc := range []struct {
		name   string
		taints []corev1.Taint
		tol    []corev1.Toleration
		leave  bool
		after  time.Duration
	}{
		{"no taint", nil, nil, false, 0},
		{"another effect", []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}, nil, false, 0},
		{"not tolerated", []corev1.Taint{unreachable}, nil, true, -10 * time.Second},
		{"tolerated for ever", []corev1.Taint{unreachable}, []corev1.Toleration{exists(unreachable.Key, nil)}, false, 0},
		{"everything is tolerated", []corev1.Taint{unreachable, mine}, []corev1.Toleration{exists("", nil)}, false, 0},
		{"for a while", []corev1.Taint{unreachable}, []corev1.Toleration{exists(unreachable.Key, sec(300))}, true, 290 * time.Second},
		{"not at all", []corev1.Taint{unreachable}, []corev1.Toleration{exists(unreachable.Key, sec(-5))}, true, -10 * time.Second},
		{"the shorter of two", []corev1.Taint{unreachable, mine}, []corev1.Toleration{exists(unreachable.Key, sec(300)), exists("team", sec(60))}, true, 50 * time.Second},
		{"one of two", []corev1.Taint{unreachable, mine}, []corev1.Toleration{exists(unreachable.Key, nil)}, true, -10 * time.Second},
		{"the value counts", []corev1.Taint{mine}, []corev1.Toleration{{Key: "team", Value: "b"}}, true, -10 * time.Second},
		{"the value fits", []corev1.Taint{mine}, []corev1.Toleration{{Key: "team", Value: "a", Operator: corev1.TolerationOpEqual}}, false, 0},
		{"the effect counts", []corev1.Taint{mine}, []corev1.Toleration{{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}}, true, -10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at, leave := eviction(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: tc.tol}}, tc.taints, epoch)
			if leave != tc.leave || leave && at.Sub(epoch) != tc.after {
				t.Errorf("leaves %v after %v", leave, at.Sub(epoch))
			}
		})
	}
}

func TestNotReady(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}}}
	got := notReady(p, epoch)
	if len(got) != 2 || got[1].Status != corev1.ConditionFalse || p.Status.Conditions[1].Status != corev1.ConditionTrue {
		t.Errorf("conditions %+v", got)
	}
	p.Status.Conditions = got
	if notReady(p, epoch) != nil {
		t.Error("it flaps")
	}
}

func TestFinishedSurplus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.IntRange(0, 5).Draw(t, "keep")
		var pods []*corev1.Pod
		finished := 0
		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "age")) * time.Hour))}}
			p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded, corev1.PodPending}).Draw(t, "phase")
			if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
				finished++
			}
			pods = append(pods, p)
		}
		got := finishedSurplus(pods, keep)
		if len(got) != max(0, finished-keep) {
			t.Fatalf("%d of %d finished go, %d are kept", len(got), finished, keep)
		}
		for _, p := range got {
			if p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
				t.Fatal("a pod goes that has not finished")
			}
			for _, q := range pods {
				if !slices.Contains(got, q) && (q.Status.Phase == corev1.PodFailed || q.Status.Phase == corev1.PodSucceeded) && q.CreationTimestamp.Before(&p.CreationTimestamp) {
					t.Fatal("a younger one goes before an older one")
				}
			}
		}
	})
}
