package framework

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fake is a plugin whose verdicts and scores stand in a table by node name.
type fake struct {
	name     string
	decision Decision
	vetoes   map[string]Rejection
	scores   map[string]int64
	err      error
	message  string // of PostFilter
}

func (f *fake) Name() string { return f.name }

func (f *fake) PreFilter(*Cycle) (Decision, error) { return f.decision, f.err }

func (f *fake) Filter(c *Cycle, nodes []int32, v *Verdicts) error {
	for _, i := range nodes {
		if r, ok := f.vetoes[c.Snapshot.Name(i)]; ok {
			v.Codes[i] = v.Code(r)
		}
	}
	return nil
}

func (f *fake) Score(c *Cycle, nodes []int32, scores []int64) error {
	for k, i := range nodes {
		scores[k] = f.scores[c.Snapshot.Name(i)]
	}
	return nil
}

func (f *fake) PostFilter(*Cycle, *Diagnosis) (string, string, error) { return "", f.message, nil }

func nodes(names ...string) *Snapshot {
	var s Snapshot
	for _, name := range names {
		s.Set(&NodeInfo{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	return &s
}

func newProfile(t *testing.T, plugins ...Enabled) *Profile {
	t.Helper()
	p, err := NewProfile("p", plugins...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func because(reasons ...string) Rejection { return Rejection{Reasons: reasons} }

func TestMessage(t *testing.T) {
	memory, taint := because("Insufficient memory"), because("node(s) had untolerated taint(s)")
	tests := []struct {
		name    string
		nodes   *Snapshot
		plugins []Enabled
		want    string
	}{
		{"no nodes", nodes(), nil, "no nodes available to schedule pods"},
		{
			"counts stand before reasons, sorted as texts",
			nodes("a", "b", "c", "d"),
			[]Enabled{
				{Plugin: &fake{name: "T", vetoes: map[string]Rejection{"a": taint, "b": taint}}},
				{Plugin: &fake{name: "M", vetoes: map[string]Rejection{"a": memory, "c": memory, "d": because("Insufficient cpu", "Insufficient memory")}}},
			},
			"0/4 nodes are available: 1 Insufficient cpu, 2 Insufficient memory, 2 node(s) had untolerated taint(s).",
		},
		{
			"refused before any node",
			nodes("a"),
			[]Enabled{{Plugin: &fake{name: "V", decision: Decision{Rejection: &Rejection{Reasons: []string{"pod has unbound immediate PersistentVolumeClaims"}}}}}},
			"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
		},
		{
			"restricted to a node that is full",
			nodes("a", "b", "c"),
			[]Enabled{
				{Plugin: &fake{name: "NodeAffinity", decision: Decision{Restrict: true, Nodes: []int32{1}}}},
				{Plugin: &fake{name: "M", vetoes: map[string]Rejection{"a": memory, "b": memory}}},
			},
			"0/3 nodes are available: 1 Insufficient memory, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		},
		{
			"restricted to nothing in common",
			nodes("a", "b", "c"),
			[]Enabled{
				{Plugin: &fake{name: "Y", decision: Decision{Restrict: true, Nodes: []int32{1}}}},
				{Plugin: &fake{name: "X", decision: Decision{Restrict: true, Nodes: []int32{2}}}},
			},
			"0/3 nodes are available: node(s) didn't satisfy plugin(s) [X Y] simultaneously.",
		},
		{
			"with what a PostFilter adds",
			nodes("a"),
			[]Enabled{{Plugin: &fake{name: "M", vetoes: map[string]Rejection{"a": memory}, message: "preemption: not helpful."}}},
			"0/1 nodes are available: 1 Insufficient memory. preemption: not helpful.",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newProfile(t, test.plugins...)
			pod := NewPodInfo(&corev1.Pod{})
			r, d, err := Schedule(test.nodes, pod, p, nil)
			if err != nil || d == nil {
				t.Fatalf("got %v, %v, %v", r, d, err)
			}
			if _, err := PostFilter(test.nodes, pod, p, d); err != nil {
				t.Fatal(err)
			}
			if got := d.Message(); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestDiagnosis(t *testing.T) {
	s := nodes("a", "b", "c")
	p := newProfile(t,
		Enabled{Plugin: &fake{name: "T", vetoes: map[string]Rejection{"a": {Reasons: []string{"taint"}, Unresolvable: true}}}},
		Enabled{Plugin: &fake{name: "M", vetoes: map[string]Rejection{"a": because("memory"), "b": because("memory"), "c": because("memory")}}},
		Enabled{Plugin: &fake{name: "unasked"}},
	)
	_, d, err := Schedule(s, NewPodInfo(&corev1.Pod{}), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"M", "T"}, d.Plugins); diff != "" {
		t.Error(diff)
	}
	if d.Unresolvable != 1 {
		t.Errorf("unresolvable: got %d, want 1", d.Unresolvable)
	}
	if diff := cmp.Diff([]int32{1, 2}, d.Resolvable()); diff != "" {
		t.Error(diff)
	}
	for i, want := range []string{"T", "M", "M"} {
		if v, ok := d.Veto(int32(i)); !ok || v.Plugin != want {
			t.Errorf("node %d: got %v, want a veto by %s", i, v, want)
		}
	}
}

func TestSchedule_scores(t *testing.T) {
	s := nodes("a", "b", "c")
	p := newProfile(t,
		Enabled{Plugin: &fake{name: "one", scores: map[string]int64{"a": 10, "b": 40, "c": 0}}, Weight: 2},
		Enabled{Plugin: &fake{name: "two", scores: map[string]int64{"a": 60, "b": 0, "c": 80}}},
	)
	pod := NewPodInfo(&corev1.Pod{})
	// a: 80, b: 80, c: 80: the tie number decides, and each gets its turn.
	got := map[string]int{}
	for tie := range uint64(6) {
		r, _, err := Schedule(s, pod, p, &Workspace{Tie: tie})
		if err != nil {
			t.Fatal(err)
		}
		got[r.Node]++
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 2, "c": 2}, got); diff != "" {
		t.Error(diff)
	}
	e, err := Explain(s, pod, p)
	if err != nil {
		t.Fatal(err)
	}
	want := NodeExplanation{Node: "b", Total: 80, Scores: []PluginScore{
		{Plugin: "one", Raw: 40, Score: 40, Weight: 2}, {Plugin: "two", Weight: 1},
	}}
	if diff := cmp.Diff(want, e.Nodes[1]); diff != "" {
		t.Error(diff)
	}
}

func TestSchedule_errors(t *testing.T) {
	broken := errors.New("broken")
	s, pod := nodes("a", "b"), NewPodInfo(&corev1.Pod{})
	if _, _, err := Schedule(s, pod, newProfile(t, Enabled{Plugin: &fake{name: "x", err: broken}}), nil); !errors.Is(err, broken) {
		t.Errorf("got %v, want the plugin's error", err)
	}
	high := &fake{name: "x", scores: map[string]int64{"a": 101}}
	if _, _, err := Schedule(s, pod, newProfile(t, Enabled{Plugin: high}), nil); err == nil {
		t.Error("a score above the maximum is no error")
	}
	if _, err := NewProfile("p", Enabled{Plugin: high}, Enabled{Plugin: high}); err == nil {
		t.Error("a plugin that is there twice is no error")
	}
	if _, err := NewProfile("p", Enabled{Plugin: high, Weight: -1}); err == nil {
		t.Error("a negative weight is no error")
	}
}

// A plugin may have more reasons than codes; the last code stands for the rest.
func TestVerdicts_overflow(t *testing.T) {
	var v Verdicts
	var last Code
	for i := range 300 {
		if last = v.Code(because(fmt.Sprint(i))); last == 0 {
			t.Fatal("code 0 means no veto")
		}
	}
	if again := v.Code(because("7")); again != 8 {
		t.Errorf("a rejection that is known: got code %d, want 8", again)
	}
	if int(last) != maxCodes {
		t.Errorf("got %d", last)
	}
}

func TestNormalize(t *testing.T) {
	for _, test := range []struct {
		in      []int64
		reverse bool
		want    []int64
	}{
		{[]int64{0, 5, 10}, false, []int64{0, 50, 100}},
		{[]int64{0, 5, 10}, true, []int64{100, 50, 0}},
		{[]int64{0, 0}, false, []int64{0, 0}},
		{[]int64{0, 0}, true, []int64{100, 100}},
	} {
		Normalize(test.in, test.reverse)
		if diff := cmp.Diff(test.want, test.in); diff != "" {
			t.Errorf("reverse %v: %s", test.reverse, diff)
		}
	}
}
