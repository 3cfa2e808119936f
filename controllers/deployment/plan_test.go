package deployment

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newDeployment(n int32, surge, unavailable intstr.IntOrString) *appsv1.Deployment {
	deadline, history := int32(600), int32(10)
	l := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "d", Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: l}, ProgressDeadlineSeconds: &deadline, RevisionHistoryLimit: &history,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: l},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
		},
	}
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		n                int32
		surge, missing   string
		wantS, wantM     int32
		why              string
		recreate, absent bool
	}{
		{n: 10, surge: "25%", missing: "25%", wantS: 3, wantM: 2, why: "surge is rounded up, unavailable down"},
		{n: 1, surge: "25%", missing: "25%", wantS: 1, wantM: 0},
		{n: 10, surge: "0", missing: "0", wantS: 0, wantM: 1, why: "or nothing could move"},
		{n: 10, surge: "0%", missing: "1%", wantS: 0, wantM: 1, why: "both are rounded to nothing"},
		{n: 4, surge: "3", missing: "100%", wantS: 3, wantM: 4},
		{n: 2, surge: "1", missing: "5", wantS: 1, wantM: 2, why: "no more than there are"},
		{n: 0, surge: "1", missing: "1", wantS: 1, wantM: 0},
		{n: 8, absent: true, wantS: 2, wantM: 2, why: "a quarter is the default"},
		{n: 8, recreate: true, wantS: 0, wantM: 0},
	} {
		d := newDeployment(tc.n, intstr.Parse(tc.surge), intstr.Parse(tc.missing))
		if tc.recreate {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}
		if tc.absent {
			d.Spec.Strategy.RollingUpdate = nil
		}
		if s, m := limits(d); s != tc.wantS || m != tc.wantM {
			t.Errorf("%+v: got %d and %d", tc, s, m)
		}
	}
}

// rset is a ReplicaSet of a size with some available pods.
func rset(name string, n, available int32, age int) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(epoch.Add(-time.Duration(age) * time.Hour)), Annotations: map[string]string{}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &n},
		Status:     appsv1.ReplicaSetStatus{Replicas: n, ReadyReplicas: available, AvailableReplicas: available},
	}
}

func TestNewSize(t *testing.T) {
	for _, tc := range []struct {
		want, surge, have, others, size int32
		why                             string
	}{
		{10, 2, 0, 10, 2, "as many as the surge allows"},
		{10, 2, 2, 10, 2, "no room"},
		{10, 2, 2, 8, 4, "what the old ones gave"},
		{10, 2, 9, 0, 10, "no more than wanted"},
		{10, 2, 12, 0, 10, "too many"},
		{10, 0, 0, 10, 0, "no surge: the old ones shrink first"},
		{10, 3, 0, 0, 10, "the first rollout needs no steps"},
		{10, 2, 1, 20, 1, "far too many old ones"},
	} {
		d := newDeployment(tc.want, intstr.FromInt32(tc.surge), intstr.FromInt32(1))
		if got := newSize(d, tc.have, tc.others); got != tc.size {
			t.Errorf("%+v: got %d", tc, got)
		}
	}
}

func TestShrinkOld(t *testing.T) {
	for _, tc := range []struct {
		name           string
		want           int32
		surge, missing int32
		fresh          *appsv1.ReplicaSet
		old            []*appsv1.ReplicaSet
		sizes          map[string]int32
	}{
		{"what may be unavailable goes at once", 10, 2, 2, rset("new", 2, 0, 0), []*appsv1.ReplicaSet{rset("a", 10, 10, 5)}, map[string]int32{"a": 8}},
		{"new pods that are not available count for nothing", 10, 2, 0, rset("new", 2, 0, 0), []*appsv1.ReplicaSet{rset("a", 10, 10, 5)}, nil},
		{"new pods that are available take over", 10, 2, 0, rset("new", 2, 2, 0), []*appsv1.ReplicaSet{rset("a", 10, 10, 5)}, map[string]int32{"a": 8}},
		{"pods that serve nobody go first", 10, 2, 2, rset("new", 2, 0, 0), []*appsv1.ReplicaSet{rset("a", 5, 5, 5), rset("b", 5, 3, 4)}, map[string]int32{"b": 3}},
		{"the oldest go first", 10, 2, 2, rset("new", 2, 2, 0), []*appsv1.ReplicaSet{rset("b", 5, 5, 4), rset("a", 5, 5, 5)}, map[string]int32{"a": 1}},
		{"all old ones when the new one is complete", 4, 1, 0, rset("new", 4, 4, 0), []*appsv1.ReplicaSet{rset("a", 1, 1, 5)}, map[string]int32{"a": 0}},
		{"never below what is promised", 4, 1, 1, rset("new", 1, 0, 0), []*appsv1.ReplicaSet{rset("a", 3, 2, 5)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDeployment(tc.want, intstr.FromInt32(tc.surge), intstr.FromInt32(tc.missing))
			got := map[string]int32{}
			for rs, n := range shrinkOld(d, tc.fresh, tc.old) {
				got[rs.Name] = n
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.sizes) && len(got)+len(tc.sizes) > 0 {
				t.Errorf("got %v, want %v", got, tc.sizes)
			}
		})
	}
}

func TestProportional(t *testing.T) {
	sized := func(rs *appsv1.ReplicaSet, desired, most int) *appsv1.ReplicaSet {
		rs.Annotations[desiredAnnotation] = strconv.Itoa(desired)
		rs.Annotations[maxAnnotation] = strconv.Itoa(most)
		return rs
	}
	for _, tc := range []struct {
		name  string
		want  int32
		surge int32
		fresh *appsv1.ReplicaSet
		old   []*appsv1.ReplicaSet
		sizes map[string]int32
	}{
		{"one set takes all", 8, 2, rset("new", 5, 5, 0), nil, map[string]int32{"new": 8}},
		{"the newest if none has pods", 8, 2, nil, []*appsv1.ReplicaSet{rset("a", 0, 0, 5), rset("b", 0, 0, 4)}, map[string]int32{"b": 8}},
		{"growing in proportion", 20, 0, sized(rset("new", 5, 0, 0), 10, 10), []*appsv1.ReplicaSet{sized(rset("a", 5, 5, 5), 10, 10)}, map[string]int32{"new": 10, "a": 10}},
		{"the example of the documentation", 15, 3, sized(rset("new", 5, 0, 0), 10, 13), []*appsv1.ReplicaSet{sized(rset("a", 8, 8, 5), 10, 13)}, map[string]int32{"new": 7, "a": 11}},
		{"shrinking", 5, 0, sized(rset("new", 6, 0, 0), 10, 10), []*appsv1.ReplicaSet{sized(rset("a", 4, 4, 5), 10, 10)}, map[string]int32{"new": 3, "a": 2}},
		{"to nothing", 0, 2, sized(rset("new", 6, 0, 0), 10, 12), []*appsv1.ReplicaSet{sized(rset("a", 6, 4, 5), 10, 12)}, map[string]int32{"new": 0, "a": 0}},
		{"a complete new set ends the old ones", 5, 2, sized(rset("new", 5, 5, 0), 5, 7), []*appsv1.ReplicaSet{sized(rset("a", 2, 2, 5), 5, 7)}, map[string]int32{"a": 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDeployment(tc.want, intstr.FromInt32(tc.surge), intstr.FromInt32(1))
			got := map[string]int32{}
			for rs, n := range proportional(d, tc.fresh, tc.old) {
				got[rs.Name] = n
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.sizes) {
				t.Errorf("got %v, want %v", got, tc.sizes)
			}
		})
	}
}

// A sim is a cluster of one deployment: it carries plans out, and has pods
// that become ready, break and go as the test wills.
type sim struct {
	d    *appsv1.Deployment
	sets []*appsv1.ReplicaSet
	pods map[string][]bool // by set: whether each pod is available
	now  time.Time
	next int
}

func (s *sim) plan(t *rapid.T) plan {
	p, err := newPlan(view{d: s.d, sets: s.sets, owner: metav1.OwnerReference{UID: "d"}, oldPods: s.oldPods(), now: s.now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *sim) oldPods() bool {
	fresh, _ := split(s.d, s.sets)
	for _, rs := range s.sets {
		if rs != fresh && len(s.pods[rs.Name]) > 0 {
			return true
		}
	}
	return false
}

func (s *sim) do(p plan) (changed bool) {
	if p.create != nil {
		rs := p.create.DeepCopy()
		s.next++
		rs.UID = types.UID(strconv.Itoa(s.next))
		rs.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(s.next) * time.Second))
		s.sets = append(s.sets, rs)
		changed = true
	}
	for _, ch := range p.changes {
		for i := range s.sets {
			if s.sets[i].Name == ch.to.Name {
				s.sets[i] = ch.to.DeepCopy()
				changed = true
			}
		}
	}
	for _, gone := range p.remove {
		for i := range s.sets {
			if s.sets[i].Name == gone.Name {
				s.sets = append(s.sets[:i:i], s.sets[i+1:]...)
				changed = true
				break
			}
		}
	}
	s.d.Status = p.status
	return changed
}

// replicate is the other controller: it makes the pods of one set as many as
// its size, taking unavailable ones first, and writes its status.
func (s *sim) replicate(rs *appsv1.ReplicaSet) {
	pods := s.pods[rs.Name]
	for len(pods) > int(size(rs)) {
		worst := 0
		for i, ok := range pods {
			if !ok {
				worst = i
			}
		}
		pods = append(pods[:worst:worst], pods[worst+1:]...)
	}
	for len(pods) < int(size(rs)) {
		pods = append(pods, false)
	}
	s.pods[rs.Name] = pods
	s.observe(rs)
}

func (s *sim) observe(rs *appsv1.ReplicaSet) {
	rs.Status.ObservedGeneration = rs.Generation
	rs.Status.Replicas, rs.Status.AvailableReplicas = int32(len(s.pods[rs.Name])), 0
	for _, ok := range s.pods[rs.Name] {
		if ok {
			rs.Status.AvailableReplicas++
		}
	}
	rs.Status.ReadyReplicas = rs.Status.AvailableReplicas
}

func (s *sim) count() (pods, available int) {
	for _, ps := range s.pods {
		for _, ok := range ps {
			pods++
			if ok {
				available++
			}
		}
	}
	return pods, available
}

// TestRollingUpdate_property rolls out again and again while pods become
// ready in any order and the status of the sets is late. The loops never make
// more pods than the surge allows, and never take one away that leaves fewer
// available than promised; and every rollout ends.
func TestRollingUpdate_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 12).Draw(t, "replicas")
		amount := rapid.OneOf(
			rapid.Map(rapid.Int32Range(0, 5), intstr.FromInt32),
			rapid.Map(rapid.IntRange(0, 100), func(p int) intstr.IntOrString { return intstr.FromString(strconv.Itoa(p) + "%") }),
		)
		s := &sim{d: newDeployment(n, amount.Draw(t, "surge"), amount.Draw(t, "unavailable")), pods: map[string][]bool{}, now: epoch}
		surge, mayMiss := limits(s.d)
		settle := func() {
			for range 500 {
				changed := s.do(s.plan(t))
				for _, rs := range s.sets {
					s.replicate(rs)
					for i := range s.pods[rs.Name] {
						s.pods[rs.Name][i] = true
					}
					s.observe(rs)
				}
				if st, _ := newStatus(s.d, nil, nil, nil, s.now); !changed && st.ObservedGeneration > 0 && complete(s.d, &s.d.Status) {
					return
				}
			}
			t.Fatalf("the rollout does not end: %+v", s.d.Status)
		}
		settle()
		for rollout := range rapid.IntRange(1, 3).Draw(t, "rollouts") {
			s.d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("v%d", rollout+2)
			s.d.Generation++
			for range rapid.IntRange(0, 60).Draw(t, "steps") {
				if len(s.sets) == 0 {
					continue
				}
				before, had := s.count()
				rs := s.sets[rapid.IntRange(0, len(s.sets)-1).Draw(t, "set")]
				switch rapid.IntRange(0, 3).Draw(t, "what") {
				case 0:
					s.do(s.plan(t))
				case 1:
					s.replicate(rs)
				case 2: // a pod becomes available
					if ps := s.pods[rs.Name]; len(ps) > 0 {
						ps[rapid.IntRange(0, len(ps)-1).Draw(t, "pod")] = true
					}
				case 3:
					s.observe(rs)
				}
				pods, available := s.count()
				if pods > before && pods > int(n+surge) {
					t.Fatalf("%d pods, may be %d", pods, n+surge)
				}
				if available < had && available < int(n-mayMiss) {
					t.Fatalf("%d available, must be %d", available, n-mayMiss)
				}
			}
			settle()
			if got := total(s.sets, size); got != n {
				t.Fatalf("sizes sum to %d, want %d", got, n)
			}
		}
	})
}

// TestPlan_property makes any plan for any state: the sizes are never
// negative, and what is written has every condition at most once.
func TestPlan_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDeployment(rapid.Int32Range(0, 20).Draw(t, "n"), intstr.FromInt32(rapid.Int32Range(0, 5).Draw(t, "surge")), intstr.FromInt32(rapid.Int32Range(0, 5).Draw(t, "missing")))
		d.Spec.Paused = rapid.Bool().Draw(t, "paused")
		if rapid.Bool().Draw(t, "recreate") {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}
		var sets []*appsv1.ReplicaSet
		for i := range rapid.IntRange(0, 4).Draw(t, "sets") {
			rs := rset(fmt.Sprintf("s%d", i), rapid.Int32Range(0, 20).Draw(t, "size"), rapid.Int32Range(0, 20).Draw(t, "available"), i)
			rs.Spec.Template = *d.Spec.Template.DeepCopy()
			rs.Spec.Template.Spec.Containers[0].Image = rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "image")
			if rapid.Bool().Draw(t, "annotated") {
				rs.Annotations[desiredAnnotation] = strconv.Itoa(rapid.IntRange(0, 20).Draw(t, "desired"))
				rs.Annotations[maxAnnotation] = strconv.Itoa(rapid.IntRange(0, 20).Draw(t, "most"))
			}
			sets = append(sets, rs)
		}
		p, err := newPlan(view{d: d, sets: sets, oldPods: rapid.Bool().Draw(t, "old pods"), now: epoch})
		if err != nil {
			t.Fatal(err)
		}
		for _, ch := range p.changes {
			if size(ch.to) < 0 || size(ch.to) > 60 {
				t.Fatalf("size %d", size(ch.to))
			}
		}
		if p.create != nil && d.Spec.Paused {
			t.Fatal("created while paused")
		}
		seen := map[appsv1.DeploymentConditionType]bool{}
		for _, c := range p.status.Conditions {
			if seen[c.Type] {
				t.Fatalf("condition %s twice", c.Type)
			}
			seen[c.Type] = true
		}
	})
}

func TestProgressDeadline(t *testing.T) {
	d := newDeployment(3, intstr.FromInt32(1), intstr.FromInt32(0))
	s := &sim{d: d, pods: map[string][]bool{}, now: epoch}
	var rt *rapid.T
	reason := func() string {
		c := find(&d.Status, appsv1.DeploymentProgressing)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
	p := s.plan(rt)
	s.do(p)
	if reason() != "True NewReplicaSetCreated" || p.again <= 600*time.Second-time.Second {
		t.Errorf("at first %s, again after %v", reason(), p.again)
	}
	s.replicate(s.sets[0])
	s.now = epoch.Add(500 * time.Second)
	s.do(s.plan(rt))
	if reason() != "True ReplicaSetUpdated" {
		t.Errorf("with pods %s", reason())
	}
	s.now = epoch.Add(1050 * time.Second) // the clock began again with the progress
	s.do(s.plan(rt))
	if reason() != "True ReplicaSetUpdated" {
		t.Errorf("after 550 s %s", reason())
	}
	s.now = epoch.Add(1101 * time.Second)
	s.do(s.plan(rt))
	if reason() != "False ProgressDeadlineExceeded" {
		t.Errorf("after 601 s %s", reason())
	}
	for i := range s.pods[s.sets[0].Name] {
		s.pods[s.sets[0].Name][i] = true
	}
	s.observe(s.sets[0])
	s.do(s.plan(rt))
	if reason() != "True NewReplicaSetAvailable" {
		t.Errorf("at the end %s", reason())
	}
	s.pods[s.sets[0].Name][0] = false
	s.observe(s.sets[0])
	s.now = epoch.Add(10000 * time.Second)
	s.do(s.plan(rt))
	if reason() != "True NewReplicaSetAvailable" {
		t.Errorf("a pod that fails later changes it to %s", reason())
	}
}

func TestHistoryAnnotation(t *testing.T) {
	if got := addHistory("", "1"); got != "1" {
		t.Error(got)
	}
	if got := addHistory("1,2", "5"); got != "1,2,5" {
		t.Error(got)
	}
	long := ""
	for i := range 2000 {
		long = addHistory(long, strconv.Itoa(i))
	}
	if len(long) > maxHistory {
		t.Errorf("history of %d bytes", len(long))
	}
}

func TestTemplateHash(t *testing.T) {
	d := newDeployment(1, intstr.FromInt32(1), intstr.FromInt32(1))
	a, err := templateHash(&d.Spec.Template, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := int32(1)
	b, _ := templateHash(&d.Spec.Template, &one)
	d.Spec.Template.Spec.Containers[0].Image = "v2"
	c, _ := templateHash(&d.Spec.Template, nil)
	if a == b || a == c || b == c || a == "" {
		t.Errorf("hashes %q %q %q", a, b, c)
	}
}
