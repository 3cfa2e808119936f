package wasmplugins_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/runner"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// A matrix is a server with plugins of each ABI at each extension point, which
// behave in each way.
type matrix struct {
	f        *fixture
	cycle    sync.Mutex // held during a scheduling cycle, of which there is one at a time; guards the field below
	snapshot *framework.Snapshot
	rows     []row
	logged   atomic.Int64 // bytes of guests
	calls    atomic.Int64
	// again asks the plugin in whose cause the host is called, nil for none.
	again atomic.Pointer[func(ctx context.Context)]
	// pace are the times that good calls took beside a behavior.
	pace map[Behavior][]time.Duration
}

// A row is a cell of the matrix.
type row struct {
	abi, place string
	behavior   Behavior
	said       string
	calls      int
}

// guests are the ABIs with who makes their guests, and the places that they
// serve.
var guests = []struct { // a constant in all but name
	abi    string
	make   func(Behavior) []byte
	places func(p *place) bool
}{
	{abi.Native, BehavingNative, func(p *place) bool { return p.name != "normalize" }},
	{abi.KubewardenABI, BehavingWaPC, isAdmission},
	{abi.KubewardenWASI, BehavingWASI, isAdmission},
	{abi.RegoABI, BehavingOPA, isAdmission},
	{abi.GatekeeperABI, BehavingGatekeeper, isAdmission},
	{abi.SchedulerABI, BehavingScheduler, func(p *place) bool { return p.letter != 0 }},
}

func isAdmission(p *place) bool { return p.name == "mutate" || p.name == "validate" }

func newMatrix(t *testing.T, change ...func(*wasmplugins.Config)) *matrix {
	t.Helper()
	m := &matrix{snapshot: threeNodes(), pace: map[Behavior][]time.Duration{}}
	m.f = newFixture(t, append(change, func(c *wasmplugins.Config) {
		c.Breaker = runner.Breaker{Failures: 1 << 30} // that has tests of its own
		c.Log = zerolog.New(m).Level(zerolog.InfoLevel)
		c.Grant = func(*pluginsv1.Common, abi.Manifest) (func(context.Context, string, []byte) ([]byte, error), []string) {
			return m.capability, []string{"authz.can_i"}
		}
	})...)
	for _, g := range guests {
		for _, b := range Behaviors() {
			m.f.module(moduleName(g.abi, b), g.make(b))
		}
	}
	return m
}

// moduleName names the module of an ABI and a behavior.
func moduleName(abi string, b Behavior) string {
	return strings.ReplaceAll(abi, "/", "-") + "." + string(b)
}

// Write counts what guests log.
func (m *matrix) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"plugin output"`)) {
		m.logged.Add(int64(len(b)))
	}
	return len(b), nil
}

// capability is what guests that call the host get; it may ask them again.
func (m *matrix) capability(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	if again := m.again.Load(); again != nil {
		(*again)(ctx)
	}
	return []byte(`{"allowed":true}`), ctx.Err()
}

// limits are those of a plugin with a behavior: what is not to be reached is far
// away, since a busy machine is slow.
func limits(abiName string, b Behavior) *pluginsv1.Limits {
	l := &pluginsv1.Limits{TimeoutMillis: 1000}
	switch b {
	case Loops:
		l.TimeoutMillis, l.Fuel = 20, 1<<50
	case Grows:
		l.MemoryMiB, l.Fuel = 8, 1<<40
	case Reenters:
		l.TimeoutMillis = 50
		if abiName == abi.SchedulerABI { // calls the host, which costs fuel
			l.TimeoutMillis, l.Fuel = 1000, 200_000
		}
	case Good, Denies, Mutates, Traps, Recurses, Floods, LiesPointer, LiesLength, Nonsense:
	}
	return l
}

// expect is what a plugin says, or why it does not.
func expect(abiName string, p *place, b Behavior) (said string, reason engine.Reason) {
	scheduler, foreign, native := p.letter != 0, abiName == abi.SchedulerABI, abiName == abi.Native
	last := p.name == "unreserve" || p.name == "postbind"
	batch := p.name == "filter" || p.name == "prescore" || p.name == "score"
	switch b {
	case Good, Floods:
		return passes, ""
	case Denies:
		switch {
		case p.name == "score" || p.name == "normalize": // cannot refuse
			return "", engine.BadReply
		case p.name == "prescore" || p.name == "postfilter" || last:
			return passes, ""
		}
		return denies, ""
	case Mutates:
		return expectMutation(abiName, p)
	case Traps:
		return "", engine.Trapped
	case Loops:
		return "", engine.DeadlineExceeded
	case Recurses:
		return "", engine.StackOverflow
	case Grows:
		return "", engine.OutOfMemory
	case LiesPointer:
		if foreign || native && batch || abiName == abi.KubewardenABI {
			return "", engine.Trapped
		}
		return "", engine.BadReply
	case LiesLength:
		if foreign || native && batch {
			return "", engine.Trapped
		}
		return "", engine.BadReply
	case Reenters:
		switch {
		case foreign:
			return "", engine.FuelExhausted
		case abiName == abi.RegoABI || abiName == abi.GatekeeperABI:
			return "", engine.Trapped
		case scheduler || p.name == "reconcile":
			return "", engine.CapabilityDenied
		}
		return "", engine.DeadlineExceeded
	case Nonsense:
		if foreign && last { // has nothing to reply
			return passes, ""
		}
		return "", engine.BadReply
	}
	return "", ""
}

// expectMutation is for guests that mutate: where there is nothing for them,
// they mutate their own memory, which nobody notices.
func expectMutation(abiName string, p *place) (said string, reason engine.Reason) {
	switch p.name {
	case "mutate":
		if abiName != abi.GatekeeperABI {
			return mutates, ""
		}
	case "validate":
		if abiName != abi.GatekeeperABI { // too late
			return "", engine.BadReply
		}
	case "convert", "virtual API", "reconcile", "prefilter", "postfilter":
		return mutates, ""
	}
	return passes, ""
}

// TestMatrix: each ABI at each extension point, with guests that behave in each
// way: each time the right reason, the next call begins anew, and other requests
// keep their pace.
func TestMatrix(t *testing.T) {
	m := newMatrix(t)
	m.yardstick()
	n := 0
	for _, g := range guests {
		for _, p := range places() {
			n++
			if g.places(p) {
				t.Run(strings.ReplaceAll(g.abi+" at "+p.name, "/", "-"), func(t *testing.T) { m.pair(t, g.abi, p, fmt.Sprintf("p%d-", n)) })
			}
		}
	}
	m.refusals(t)
	m.print(t)
	m.judgePace(t)
}

const yard = "yardstick"

// yardstick makes a good plugin that is asked beside those whose requests wait
// for each other.
func (m *matrix) yardstick() {
	k := matrixKinds()["validate"]
	k.create(m.f, yard, moduleName(abi.Native, Good), "", limits(abi.Native, Good))
	k.await(m.f, yard, metav1.ConditionTrue)
}

// pair goes through the behaviors of one ABI at one point.
func (m *matrix) pair(t *testing.T, abiName string, p *place, prefix string) {
	t.Helper()
	k := matrixKinds()[p.kind]
	for _, b := range Behaviors() {
		k.create(m.f, prefix+string(b), moduleName(abiName, b), p.settings(), limits(abiName, b))
	}
	for _, b := range Behaviors() {
		k.await(m.f, prefix+string(b), metav1.ConditionTrue)
	}
	for _, b := range Behaviors() {
		m.cell(t, abiName, p, b, prefix)
	}
	for _, b := range Behaviors() {
		k.remove(m.f, prefix+string(b))
	}
}

// cell asks a plugin again and again, then beside a good one.
func (m *matrix) cell(t *testing.T, abiName string, p *place, b Behavior, prefix string) {
	t.Helper()
	plugin := prefix + string(b)
	said, reason := expect(abiName, p, b)
	ask := func(ctx context.Context) error {
		m.calls.Add(1)
		got, err := p.ask(ctx, m, plugin)
		if reasonOf(err) != reason || (err == nil) != (reason == "") || reason == "" && got != said {
			return fmt.Errorf("%s at %s %s: got %q, %w; want %q %s", abiName, p.name, b, got, orNil(err), said, reason)
		}
		return nil
	}
	if b == Reenters {
		nested := func(ctx context.Context) { _, _ = p.ask(ctx, m, plugin) } // fails like the one around it
		if p.letter == 0 && !p.slow {
			m.again.Store(&nested)
			defer m.again.Store(nil)
		}
	}
	calls := 3
	if b == Mutates && !p.slow {
		calls = 30 // more than a guest that mutates its own memory bears
	}
	logged := m.logged.Load()
	for range calls {
		if err := ask(t.Context()); err != nil {
			t.Error(err)
			return
		}
	}
	const most = 64 << 10 // 8 KiB, each byte escaped
	if logged = m.logged.Load() - logged; logged > int64(calls)*most && !p.slow {
		t.Errorf("%s: %d bytes were logged in %d calls", plugin, logged, calls)
	}
	calls += m.beside(t, p, b, prefix, ask)
	m.rows = append(m.rows, row{abiName, p.name, b, strings.TrimSpace(said + " " + string(reason)), calls})
}

// beside asks a good plugin while another is asked, and returns how often that
// was.
func (m *matrix) beside(t *testing.T, p *place, b Behavior, prefix string, ask func(context.Context) error) (calls int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	begun := make(chan struct{})
	wg.Go(func() {
		for ; calls == 0 || ctx.Err() == nil && !p.slow; calls++ {
			if calls == 0 {
				close(begun)
			}
			if err := ask(t.Context()); err != nil {
				t.Error("beside a good one:", err)
				return
			}
		}
	})
	<-begun
	good := func() (string, error) { return p.ask(t.Context(), m, prefix+string(Good)) }
	if p.alone {
		good = func() (string, error) { return askAdmission(pluginsv1.PhaseValidate)(t.Context(), m, yard) }
	}
	const samples = 12
	for range samples {
		begin := time.Now()
		if said, err := good(); said != passes || err != nil {
			t.Errorf("a good plugin beside %s: %q, %v", b, said, err)
		}
		m.pace[b] = append(m.pace[b], time.Since(begin))
		m.calls.Add(1)
	}
	cancel()
	wg.Wait()
	return calls
}

var errNone = errors.New("no error")

func orNil(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// refusals shows that what an ABI cannot serve it is not asked to.
func (m *matrix) refusals(t *testing.T) {
	t.Helper()
	byKind := map[string]*place{}
	for _, p := range places() {
		byKind[p.kind] = p
	}
	kinds := matrixKinds()
	n := 0
	for _, g := range guests {
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			k, p := kinds[name], byKind[name]
			if p == nil || g.places(p) || name == "schedule at Bind" { // which is no kind of its own
				continue
			}
			n++
			plugin := fmt.Sprintf("refused-%d", n)
			k.create(m.f, plugin, moduleName(g.abi, Good), "", nil)
			reason := k.await(m.f, plugin, metav1.ConditionFalse)
			if !strings.HasPrefix(reason, "UnsupportedABI ") || !strings.Contains(reason, g.abi) {
				t.Errorf("%s at %s: %s", g.abi, name, reason)
			}
			m.rows = append(m.rows, row{g.abi, name, "all", "UnsupportedABI", 0})
			k.remove(m.f, plugin)
		}
	}
}

// print shows the table.
func (m *matrix) print(t *testing.T) {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ABI\tpoint\tguest\toutcome\tcalls") // in memory
	for _, r := range m.rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", r.abi, r.place, r.behavior, r.said, r.calls) // in memory
	}
	_ = w.Flush() // in memory
	t.Logf("%d cells, %d calls\n%s", len(m.rows), m.calls.Load(), &b)
}

// judgePace compares how long good calls took beside each behavior with how long
// they took beside good ones.
func (m *matrix) judgePace(t *testing.T) {
	t.Helper()
	const factor, slack = 10, 200 * time.Millisecond // a busy machine has pauses of its own
	base := p99(m.pace[Good])
	for _, b := range Behaviors() {
		got := p99(m.pace[b])
		t.Logf("p99 of %d good calls beside a plugin that %s: %v", len(m.pace[b]), b, got)
		if got > factor*base+slack {
			t.Errorf("good calls took %v at p99 beside one that %s, and %v beside good ones", got, b, base)
		}
	}
}

func p99(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return of[(len(of)*99)/100]
}
