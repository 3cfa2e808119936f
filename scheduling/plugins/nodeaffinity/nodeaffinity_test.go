package nodeaffinity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

func snapshot() *framework.Snapshot {
	var s framework.Snapshot
	for name, labels := range map[string]map[string]string{
		"a": {"zone": "z1", "cores": "4"},
		"b": {"zone": "z2", "cores": "8"},
		"c": {"zone": "z3", "disk": "ssd"},
	} {
		s.Set(&framework.NodeInfo{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}})
	}
	return &s
}

func expr(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
}

func terms(list ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: list},
	}}
}

func labels(list ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: list}
}

func names(list ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: list}
}

func profile(t *testing.T) *framework.Profile {
	t.Helper()
	p, err := framework.NewProfile("p", framework.Enabled{Plugin: &Plugin{}, Weight: 2})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFilter(t *testing.T) {
	const none = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
	tests := []struct {
		name     string
		selector map[string]string
		affinity *corev1.Affinity
		want     string // nodes that pass
		message  string
	}{
		{name: "nodeSelector", selector: map[string]string{"zone": "z2"}, want: "b"},
		{name: "nodeSelector that no node has", selector: map[string]string{"zone": "z9"}, message: none},
		{name: "In", affinity: terms(labels(expr("zone", "In", "z1", "z3"))), want: "ac"},
		{name: "NotIn", affinity: terms(labels(expr("zone", "NotIn", "z1"))), want: "bc"},
		{name: "Exists", affinity: terms(labels(expr("disk", "Exists"))), want: "c"},
		{name: "DoesNotExist", affinity: terms(labels(expr("disk", "DoesNotExist"))), want: "ab"},
		{name: "Gt", affinity: terms(labels(expr("cores", "Gt", "4"))), want: "b"},
		{name: "Lt", affinity: terms(labels(expr("cores", "Lt", "8"))), want: "a"},
		{name: "expressions of a term all hold", affinity: terms(labels(expr("zone", "In", "z1", "z2"), expr("cores", "Gt", "4"))), want: "b"},
		{name: "terms are alternatives", affinity: terms(labels(expr("zone", "In", "z1")), labels(expr("disk", "Exists"))), want: "ac"},
		{name: "selector and affinity both hold", selector: map[string]string{"zone": "z1"}, affinity: terms(labels(expr("cores", "Exists"))), want: "a"},
		{name: "an empty term matches nothing", affinity: terms(corev1.NodeSelectorTerm{}), message: none},
		{name: "no terms match nothing", affinity: terms(), message: none},
		{name: "a node by name", affinity: terms(names(expr("metadata.name", "In", "b"))), want: "b"},
		{name: "nodes by name, alternatives", affinity: terms(names(expr("metadata.name", "In", "b")), names(expr("metadata.name", "In", "c"))), want: "bc"},
		{
			name: "names that exclude each other", affinity: terms(names(expr("metadata.name", "In", "b"), expr("metadata.name", "In", "c"))),
			message: "0/3 nodes are available: pod affinity terms conflict.",
		},
		{
			name: "a name that is not there", affinity: terms(names(expr("metadata.name", "In", "zz"))),
			message: "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
		},
		{name: "by name, with a label that does not match", affinity: terms(corev1.NodeSelectorTerm{
			MatchFields: names(expr("metadata.name", "In", "b")).MatchFields, MatchExpressions: labels(expr("disk", "Exists")).MatchExpressions,
		}), message: "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."},
		{name: "an expression that cannot be parsed", affinity: terms(labels(expr("cores", "Gt", "many"))), message: none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := snapshot()
			pod := framework.NewPodInfo(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: test.selector, Affinity: test.affinity}})
			got := ""
			for _, name := range []string{"a", "b", "c"} {
				// Whatever Tie is, a node that does not pass is never chosen.
				for tie := range uint64(3) {
					r, _, err := framework.Schedule(s, pod, profile(t), &framework.Workspace{Tie: tie})
					if err != nil {
						t.Fatal(err)
					}
					if r.Node == name {
						got += name
						break
					}
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			_, d, _ := framework.Schedule(s, pod, profile(t), nil)
			if d != nil && d.Message() != test.message {
				t.Errorf("got %q, want %q", d.Message(), test.message)
			}
		})
	}
}

func TestScore(t *testing.T) {
	prefer := func(weight int32, r corev1.NodeSelectorRequirement) corev1.PreferredSchedulingTerm {
		return corev1.PreferredSchedulingTerm{Weight: weight, Preference: labels(r)}
	}
	pod := framework.NewPodInfo(&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			prefer(30, expr("cores", "Exists")), prefer(10, expr("zone", "In", "z2")), prefer(10, expr("zone", "In", "z3")),
		},
	}}}})
	e, err := framework.Explain(snapshot(), pod, profile(t))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]framework.PluginScore{}
	for _, n := range e.Nodes {
		got[n.Node] = n.Scores[0]
	}
	want := map[string]framework.PluginScore{
		"a": {Plugin: Name, Raw: 30, Score: 75, Weight: 2},
		"b": {Plugin: Name, Raw: 40, Score: 100, Weight: 2},
		"c": {Plugin: Name, Raw: 10, Score: 25, Weight: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHelps(t *testing.T) {
	node := func(zone string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": zone}}}
	}
	pod := framework.NewPodInfo(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": "z1"}}})
	tests := []struct {
		name   string
		change framework.Change
		want   bool
	}{
		{"a new node that matches", framework.Change{Node: node("z1")}, true},
		{"a new node that does not", framework.Change{Node: node("z2")}, false},
		{"a node comes to match", framework.Change{OldNode: node("z2"), Node: node("z1")}, true},
		{"a node matched before", framework.Change{OldNode: node("z1"), Node: node("z1")}, false},
		{"the pod itself", framework.Change{}, true},
	}
	for _, test := range tests {
		if got := (&Plugin{}).Helps(pod, test.change); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
