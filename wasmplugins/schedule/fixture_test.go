package schedule

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a SchedulerPlugin with a guest, without a runner.
type running struct {
	name  string
	obj   atomic.Pointer[pluginsv1.SchedulerPlugin]
	guest atomic.Pointer[Guest]
	last  atomic.Pointer[engine.Usage]
	uses  atomic.Int64
	fails atomic.Int64
}

func (r *running) Name() string                       { return r.name }
func (r *running) Object() *pluginsv1.SchedulerPlugin { return r.obj.Load() }
func (r *running) Running() (*Guest, bool)            { g := r.guest.Load(); return g, g != nil }

func (r *running) Use(_ context.Context, f func(*Guest) (engine.Usage, error)) (engine.Usage, error) {
	for {
		g := r.guest.Load()
		if g == nil {
			return engine.Usage{}, &engine.Error{Plugin: r.name, Reason: engine.NotReady, Detail: "the plugin is not loaded yet"}
		}
		u, err := f(g)
		if errors.Is(err, engine.ErrClosed) {
			continue
		}
		r.uses.Add(1)
		if err != nil {
			r.fails.Add(1)
		}
		r.last.Store(&u)
		return u, err
	}
}

// swap puts a guest in place, as the runner does.
func (r *running) swap(g *Guest) {
	if old := r.guest.Swap(g); old != nil {
		old.Close()
	}
}

// fixture is a host with its engine.
type fixture struct {
	testing.TB
	e    *engine.Engine
	host *Host
	list []Running
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureWith(t, engine.Config{})
}

func newFixtureWith(t testing.TB, c engine.Config) *fixture {
	t.Helper()
	c.CompileTimeout = 10 * time.Minute
	e, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, e: e, host: NewHost(HostConfig{Engine: e})}
	t.Cleanup(func() {
		if err := errors.Join(f.host.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) load(wasm []byte) *engine.Code {
	f.Helper()
	code, err := f.e.Load(context.Background(), wasm)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(code.Close)
	return code
}

// start starts a guest.
func (f *fixture) start(code *engine.Code, c GuestConfig) (*Guest, error) {
	f.Helper()
	m, err := abi.ParseManifest(code.Sections[abi.ManifestSection])
	if err != nil {
		f.Fatal(err)
	}
	kind := abi.Native
	if _, ok := code.Exports[abi.ExportVersion]; !ok {
		kind = abi.SchedulerABI
	}
	return f.host.Start(context.Background(), code, kind, m, c)
}

// plugin adds a plugin with a guest.
func (f *fixture) plugin(name string, wasm []byte, change ...func(*pluginsv1.SchedulerPlugin, *GuestConfig)) *running {
	f.Helper()
	obj := &pluginsv1.SchedulerPlugin{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c := GuestConfig{Name: name, Log: func(_ engine.Level, line []byte) { f.Logf("%s: %s", name, line) }}
	for _, ch := range change {
		ch(obj, &c)
	}
	c.Points = obj.Spec.Points
	g, err := f.start(f.load(wasm), c)
	if err != nil {
		f.Fatal(err)
	}
	r := &running{name: name}
	r.obj.Store(obj)
	r.guest.Store(g)
	f.Cleanup(func() { r.swap(nil) })
	f.list = append(f.list, r)
	f.host.Set(f.list)
	return r
}

// profile makes a profile of the plugins alone.
func (f *fixture) profile() *framework.Profile {
	f.Helper()
	var enabled []framework.Enabled
	for _, e := range f.host.Plugins() {
		enabled = append(enabled, e.Enabled)
	}
	p, err := framework.NewProfile("p", enabled...)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// cluster is a snapshot that changes.
type cluster struct {
	framework.Snapshot
	generation int64
	infos      map[string]*framework.NodeInfo
}

// set adds a node or changes it.
func (c *cluster) set(name string, change ...func(*corev1.Node)) {
	c.generation++
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	n.Status.Allocatable = corev1.ResourceList{
		"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("1Gi"),
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, ch := range change {
		ch(n)
	}
	if c.infos == nil {
		c.infos = map[string]*framework.NodeInfo{}
	}
	info := c.infos[name]
	if info == nil {
		info = &framework.NodeInfo{}
		c.infos[name] = info
	}
	info.SetNode(n)
	info.Generation = c.generation
	c.Set(info)
}

// book puts a pod on a node.
func (c *cluster) book(name string, pod *framework.PodInfo) {
	c.generation++
	info := c.infos[name]
	info.AddPod(pod)
	info.Generation = c.generation
	c.Set(info)
}

func (c *cluster) remove(name string) {
	delete(c.infos, name)
	c.Remove(name)
}

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func newPod(name string, change ...func(*corev1.Pod)) *framework.PodInfo {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "img", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")},
	}}}
	for _, ch := range change {
		ch(p)
	}
	return framework.NewPodInfo(p)
}

// Where the guests of this file keep things.
const (
	replyAt   = 1024
	requestAt = 8192
	tableAt   = 64 << 10
)

// guestModule adds the functions that a guest of the native ABI needs: its pages
// of memory, and a prepare that answers with the reply.
func guestModule(m *Module, pages uint32, prepare string) {
	m.Memory(pages, 0)
	m.Data(replyAt, []byte(prepare))
	last := m.Global(I32, 0) // where the table is
	m.Func("proa_abi", nil, []byte{I32}, nil, Const32(abi.Version))
	m.Func("proa_alloc", []byte{I32}, []byte{I32}, nil, Const32(requestAt))
	// The table grows the memory as it needs.
	m.Func("proa_table", []byte{I32}, []byte{I32}, nil,
		Const32(tableAt), Get(0), Add32, Const32(65535), Add32, Const32(16), Op(0x76), // shr_u: pages
		Op(0x3f, 0), Sub32, Grow, Drop, Const32(tableAt))
	if prepare == "" {
		m.Func("proa_prepare", []byte{I32, I32}, []byte{I64}, nil, Const64(0))
	} else {
		m.Func("proa_prepare", []byte{I32, I32}, []byte{I64}, nil, Reply(replyAt, uint32(len(prepare))))
	}
	m.Func("proa_nodes", []byte{I32, I32, I32, I32}, []byte{I32}, nil, Get(0), GlobalSet(last), Const32(0))
}

// tableGlobal is the global in which guestModule keeps the place of the table.
const tableGlobal = 0

// each loops over the records: the code finds the record in local 2, the place
// of the answer in local 3, both are i32, and local 4 for itself. Parameters
// are (out, count); size is that of an answer.
func each(size int32, code ...[]byte) [][]byte {
	body := [][]byte{
		Get(1), Eqz32, BrIf(1),
	}
	body = append(body, code...)
	body = append(body,
		Get(2), Const32(abi.NodeStride), Add32, Set(2),
		Get(3), Const32(size), Add32, Set(3),
		Get(1), Const32(1), Sub32, Set(1), Br(0))
	return [][]byte{GlobalGet(tableGlobal), Set(2), Get(0), Set(3), Block(Loop(body...)), Const32(0)}
}

var (
	i32s  = []byte{I32, I32, I32}
	two   = []byte{I32, I32}
	one   = []byte{I32}
	load8 = Op(0x2d, 0, 0)
)

func store8() []byte { return Op(0x3a, 0, 0) }

// load is i32.load at an offset.
func load(offset byte) []byte { return Op(0x28, 2, offset) }

// byZone is a guest that vetoes the nodes of zone 1 with its first reason, and
// scores the others by their allocated milli-CPU (as i32).
func byZone(prepare string) []byte {
	m := &Module{}
	guestModule(m, 1, prepare)
	m.Func("proa_filter", two, one, i32s, each(1,
		// only where it is asked
		If2(append(append(Get(3), load8...), Eqz32...),
			Get(3), Get(2), load(8), Const32(1), Op(0x46), store8()))...)
	m.Func("proa_score", two, one, i32s, each(4,
		If2(append(append(Get(3), load(0)...), Eqz32...),
			Get(3), Get(2), load(48), Store32))...)
	return m.Bytes()
}

// If2 is a condition and what to do if it holds.
func If2(cond []byte, code ...[]byte) []byte { return append(cond, If(code...)...) }

func unschedulable(d *framework.Diagnosis, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if d == nil {
		return "scheduled"
	}
	return d.Message()
}

func (f *fixture) schedule(c *cluster, pod *framework.PodInfo) (framework.Result, string) {
	f.Helper()
	r, d, err := framework.Schedule(&c.Snapshot, pod, f.profile(), nil)
	return r, unschedulable(d, err)
}
