package wasmplugins_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func schedulerPlaces() []*place {
	cycle := func(name string, letter byte) *place {
		return &place{name: name, kind: "schedule", letter: letter, ask: askCycle, alone: true}
	}
	placed := func(name string, letter byte, ask func(context.Context, *framework.Profile, *framework.PodInfo) error) *place {
		return &place{name: name, kind: "schedule", letter: letter, ask: askPlaced(ask)}
	}
	list := []*place{
		cycle("prefilter", LetterPreFilter), cycle("filter", LetterFilter), cycle("prescore", LetterPreScore),
		cycle("score", LetterScore), cycle("normalize", LetterNormalize),
		{name: "postfilter", kind: "schedule", letter: LetterPostFilter, ask: askPostFilter, alone: true},
		placed("reserve", LetterReserve, func(ctx context.Context, p *framework.Profile, pod *framework.PodInfo) error {
			return p.Reserve[0].Reserve(ctx, pod, "a")
		}),
		placed("permit", LetterPermit, func(ctx context.Context, p *framework.Profile, pod *framework.PodInfo) error {
			return p.Permit[0].Permit(ctx, pod, "a")
		}),
		placed("prebind", LetterPreBind, func(ctx context.Context, p *framework.Profile, pod *framework.PodInfo) error {
			return p.PreBind[0].PreBind(ctx, pod, "a")
		}),
		placed("bind", LetterBind, func(ctx context.Context, p *framework.Profile, pod *framework.PodInfo) error {
			_, err := p.Bind[0].Bind(ctx, pod, "a")
			return err
		}),
		{name: "unreserve", kind: "schedule", letter: LetterUnreserve, alone: true, slow: true, ask: askLast(func(ctx context.Context, p *framework.Profile, pod *framework.PodInfo) {
			p.Reserve[0].Unreserve(ctx, pod, "a")
		})},
		{name: "postbind", kind: "schedule", letter: LetterPostBind, alone: true, slow: true, ask: askLast(func(ctx context.Context, p *framework.Profile, pod *framework.PodInfo) {
			p.PostBind[0].PostBind(ctx, pod, "a")
		})},
	}
	for _, p := range list {
		if p.name == "bind" {
			p.kind = "schedule at Bind" // it is asked only if it is named
		}
	}
	return list
}

// threeNodes is a cluster.
func threeNodes() *framework.Snapshot {
	s := &framework.Snapshot{}
	for i, name := range []string{"a", "b", "c"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		info := &framework.NodeInfo{}
		info.SetNode(n)
		info.Generation = int64(i) + 1
		s.Set(info)
	}
	return s
}

func newPod() *framework.PodInfo {
	n := serial.Add(1)
	return framework.NewPodInfo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", n), Namespace: "default", UID: types.UID(fmt.Sprintf("uid-%d", n))}})
}

// profile is one of a plugin alone.
func (m *matrix) profile(plugin string) (*framework.Profile, error) {
	for _, e := range m.f.host.Scheduling.Plugins() {
		if e.Plugin.Name() == plugin {
			return framework.NewProfile("p", e.Enabled)
		}
	}
	return nil, fmt.Errorf("there is no scheduler plugin %q", plugin)
}

func askCycle(_ context.Context, m *matrix, plugin string) (string, error) {
	m.cycle.Lock()
	defer m.cycle.Unlock()
	p, err := m.profile(plugin)
	if err != nil {
		return "", err
	}
	r, d, err := framework.Schedule(m.snapshot, newPod(), p, nil)
	switch {
	case err != nil:
		return "", err
	case d != nil:
		return denies, nil
	case r.Feasible == 1:
		return mutates, nil
	}
	return passes, nil
}

func askPostFilter(_ context.Context, m *matrix, plugin string) (string, error) {
	m.cycle.Lock()
	defer m.cycle.Unlock()
	p, err := m.profile(plugin)
	if err != nil {
		return "", err
	}
	pod := newPod()
	_, d, err := framework.Schedule(m.snapshot, pod, p, nil)
	if err != nil || d == nil {
		return "", errors.Join(errors.New("the pod should have been refused"), err)
	}
	node, err := framework.PostFilter(m.snapshot, pod, p, d)
	switch {
	case err != nil:
		return "", err
	case node != "":
		return mutates, nil
	}
	return passes, nil
}

func askPlaced(ask func(context.Context, *framework.Profile, *framework.PodInfo) error) func(context.Context, *matrix, string) (string, error) {
	return func(ctx context.Context, m *matrix, plugin string) (string, error) {
		p, err := m.profile(plugin)
		if err != nil {
			return "", err
		}
		pod := newPod()
		err = ask(ctx, p, pod)
		for _, r := range p.Reserve { // or the plugin would have to remember the pod
			r.Unreserve(ctx, pod, "a")
		}
		if err != nil && reasonOf(err) == "" {
			return denies, nil
		}
		return passes, err
	}
}

// askLast is about the last that a plugin hears of a pod: a failure is counted,
// and nobody else is told.
func askLast(ask func(context.Context, *framework.Profile, *framework.PodInfo)) func(context.Context, *matrix, string) (string, error) {
	return func(ctx context.Context, m *matrix, plugin string) (string, error) {
		p, err := m.profile(plugin)
		if err != nil {
			return "", err
		}
		const pods = 6 // metrics are slow
		before := m.failures(plugin)
		for range pods {
			ask(ctx, p, newPod())
		}
		for reason, n := range m.failures(plugin) {
			if n > before[reason] {
				return "", &engine.Error{Reason: reason}
			}
		}
		return passes, nil
	}
}

// failures are those in the metrics of a plugin.
func (m *matrix) failures(plugin string) map[engine.Reason]float64 {
	m.f.t.Helper()
	families, err := m.f.metrics.Gather()
	if err != nil {
		m.f.t.Fatal(err)
	}
	out := map[engine.Reason]float64{}
	for _, family := range families {
		if family.GetName() != "proa_plugin_failures_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["plugin"] == plugin {
				out[engine.Reason(labels["reason"])] = metric.GetCounter().GetValue()
			}
		}
	}
	return out
}
