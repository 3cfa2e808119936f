package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
	"github.com/proa-project/proa/wasmplugins/schedule"
)

// pointSchedule is the point of cases for the scheduler's plugins.
const pointSchedule = "schedule"

// A placement is what comes of a pod, with the plugin as the only one: the
// reply that such a case can want.
type placement struct {
	Node    string                  `json:"node"`
	Message string                  `json:"message"`
	Nodes   map[string]nodeVerdicts `json:"nodes"`
}

type nodeVerdicts struct {
	Reasons []string `json:"reasons"`
	Score   int64    `json:"score"`
}

// solo is a SchedulerPlugin that is not in the API.
type solo struct {
	obj   pluginsv1.SchedulerPlugin
	guest *schedule.Guest
	mu    sync.Mutex
	usage engine.Usage
	err   error // the last
}

func (s *solo) Name() string                       { return s.obj.Name }
func (s *solo) Object() *pluginsv1.SchedulerPlugin { return &s.obj }
func (s *solo) Running() (*schedule.Guest, bool)   { return s.guest, true }

func (s *solo) Use(_ context.Context, f func(*schedule.Guest) (engine.Usage, error)) (engine.Usage, error) {
	u, err := f(s.guest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.Fuel += u.Fuel
	s.usage.Memory = max(s.usage.Memory, u.Memory)
	s.usage.HostCalls = append(s.usage.HostCalls, u.HostCalls...)
	if err != nil {
		s.err = err
	}
	return u, err
}

// take returns what was used since the last time, and the last error.
func (s *solo) take() (engine.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.usage, s.err
	s.usage, s.err = engine.Usage{}, nil
	return u, err
}

// startSchedule starts a guest that schedules the case's pod onto its nodes.
func (c *testCase) startSchedule(ctx context.Context, e *engine.Engine, code *engine.Code, nc native.Config) (*asked, error) {
	snapshot, pod, err := c.cluster()
	if err != nil {
		return nil, err
	}
	m, err := abi.ParseManifest(code.Sections[abi.ManifestSection])
	if err != nil {
		return nil, err
	}
	host := schedule.NewHost(schedule.HostConfig{Engine: e})
	g, err := host.Start(ctx, code, abi.Detect(code.Exports, code.Imports, code.Sections), m, schedule.GuestConfig{
		Name: nc.Name, Settings: nc.Settings, Limits: nc.Limits, Capability: nc.Capability, Log: nc.Log,
	})
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	s := &solo{obj: pluginsv1.SchedulerPlugin{ObjectMeta: metav1.ObjectMeta{Name: nc.Name}}, guest: g}
	host.Set([]schedule.Running{s})
	a := &asked{close: func() {
		host.Set(nil)
		g.Close()
		_ = host.Close() // frees memory only
	}}
	var enabled []framework.Enabled
	for _, p := range host.Plugins() {
		enabled = append(enabled, p.Enabled)
	}
	profile, err := framework.NewProfile("test", enabled...)
	if err != nil {
		a.close()
		return nil, err
	}
	a.ask = func(context.Context) (engine.Usage, error) {
		result, diagnosis, err := framework.Schedule(snapshot, pod, profile, nil)
		u, failed := s.take()
		if err = errors.Join(err, failed); err != nil || a.other != nil {
			return u, err
		}
		a.other, err = explain(snapshot, pod, profile, result, diagnosis)
		_, _ = s.take() // of the explanation
		return u, err
	}
	return a, nil
}

// cluster reads the case's nodes and its pod.
func (c *testCase) cluster() (*framework.Snapshot, *framework.PodInfo, error) {
	snapshot := &framework.Snapshot{}
	for i, text := range c.Nodes {
		n := &corev1.Node{}
		if err := json.Unmarshal(text, n); err != nil {
			return nil, nil, fmt.Errorf("node %d: %w", i+1, err)
		}
		if len(n.Status.Conditions) == 0 {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
		info := &framework.NodeInfo{}
		info.SetNode(n)
		info.Generation = int64(i) + 1
		snapshot.Set(info)
	}
	pod := &corev1.Pod{}
	if len(c.Request) > 0 {
		if err := json.Unmarshal(c.Request, pod); err != nil {
			return nil, nil, fmt.Errorf("the pod: %w", err)
		}
	}
	return snapshot, framework.NewPodInfo(pod), nil
}

// explain tells what became of a pod, as JSON.
func explain(s *framework.Snapshot, pod *framework.PodInfo, p *framework.Profile, r framework.Result, d *framework.Diagnosis) ([]byte, error) {
	out := placement{Node: r.Node, Nodes: map[string]nodeVerdicts{}}
	if d != nil {
		out.Message = d.Message()
	}
	e, err := framework.Explain(s, pod, p)
	if err != nil {
		return nil, err
	}
	for _, n := range e.Nodes {
		v := nodeVerdicts{Reasons: []string{}, Score: n.Total}
		for _, veto := range n.Vetoes {
			v.Reasons = append(v.Reasons, veto.Reasons...)
		}
		out.Nodes[n.Node] = v
	}
	return json.Marshal(out)
}
