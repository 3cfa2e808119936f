package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// native1 makes a guest with one function that a test gives.
func native1(prepare, name string, params, results, locals []byte, code ...[]byte) func() []byte {
	return func() []byte {
		m := &Module{}
		guestModule(m, 1, prepare)
		m.Func(name, params, results, locals, code...)
		if name == "proa_score" {
			return m.Bytes()
		}
		m.Func("proa_score", two, one, nil, Const32(0))
		return m.Bytes()
	}
}

// prepared makes a guest whose proa_prepare is the code.
func prepared(code ...[]byte) func() []byte {
	return func() []byte {
		m := &Module{}
		m.Memory(64, 0)
		m.Data(replyAt, []byte(`{"reasons":[{"reason":"x"}]}`))
		m.Func("proa_abi", nil, []byte{I32}, nil, Const32(abi.Version))
		m.Func("proa_alloc", one, one, nil, Const32(requestAt))
		m.Func("proa_table", one, one, nil, Const32(tableAt))
		m.Func("proa_prepare", two, []byte{I64}, one, code...)
		m.Func("proa_nodes", []byte{I32, I32, I32, I32}, one, nil, Const32(0))
		m.Func("proa_filter", two, one, nil, Const32(0))
		return m.Bytes()
	}
}

const oneReason = `{"reasons":[{"reason":"x"}]}`

// evilGuests misbehave in one way each.
var evilGuests = []struct {
	name   string
	limits engine.Limits
	wasm   func() []byte
	reason engine.Reason
	detail string
}{
	{"filter traps", engine.Limits{}, native1("", "proa_filter", two, one, nil, Unreachable), engine.Trapped, "proa_filter: unreachable"},
	{"filter loops", engine.Limits{Timeout: 20 * time.Millisecond, Fuel: 1 << 60}, native1("", "proa_filter", two, one, nil, Loop(Br(0)), Const32(0)), engine.DeadlineExceeded, "ran longer than 20ms"},
	{"filter burns fuel", engine.Limits{Fuel: 1_000_000}, native1("", "proa_filter", two, one, nil, Loop(Br(0)), Const32(0)), engine.FuelExhausted, "took more than 1000000 units"},
	{"filter recurses", engine.Limits{}, native1("", "proa_filter", two, one, nil, Get(0), Get(1), Call(5)), engine.StackOverflow, "nested more than"},
	{"filter grows", engine.Limits{Memory: 1 << 20}, native1("", "proa_filter", two, one, nil, Loop(Const32(16), Grow, Const32(0), Op(0x4e), BrIf(0)), Unreachable), engine.OutOfMemory, "needed more than"},
	{"filter floods the log", engine.Limits{Timeout: 20 * time.Millisecond, Fuel: 1 << 60}, func() []byte {
		m := &Module{}
		log := m.Import("proa", "log", []byte{I32, I32, I32}, nil)
		guestModule(m, 1, "")
		m.Func("proa_filter", two, one, nil, Loop(Const32(1), Const32(0), Const32(1000), Call(log), Br(0)), Const32(0))
		return m.Bytes()
	}, engine.DeadlineExceeded, "ran longer than"},
	{"filter calls the host", engine.Limits{}, func() []byte {
		m := &Module{}
		call := m.Import("proa", "call", []byte{I32, I32, I32, I32}, []byte{I32})
		guestModule(m, 1, "")
		m.Func("proa_filter", two, one, nil, Const32(0), Const32(4), Const32(0), Const32(0), Call(call))
		return m.Bytes()
	}, engine.CapabilityDenied, "which is not granted"},
	{"filter returns an error", engine.Limits{}, native1("", "proa_filter", two, one, nil, Const32(-7)), engine.BadReply, "proa_filter returned -7"},
	{"filter gives an unknown reason", engine.Limits{}, native1(oneReason, "proa_filter", two, one, i32s, each(1, Get(3), Const32(2), store8())...), engine.BadReply, `answered 2 for node "a", but there are 1 reasons`},
	{"filter writes beyond its answers", engine.Limits{Memory: 1 << 20}, native1("", "proa_filter", two, one, nil, Get(0), Const32(0), Const32(1<<30), Fill, Const32(0)), engine.Trapped, "out of bounds memory access"},
	{"score above the range", engine.Limits{}, native1("", "proa_score", two, one, i32s, each(4, Get(3), Const32(101), Store32)...), engine.BadReply, `gave node "b" the score 101, which is not in 0..100`},
	{"score below the range", engine.Limits{}, native1("", "proa_score", two, one, i32s, each(4, Get(3), Const32(-2), Store32)...), engine.BadReply, `the score -2`},
	{"negative score to normalize", engine.Limits{}, native1(`{"normalize":"scale"}`, "proa_score", two, one, i32s, each(4, Get(3), Const32(-5), Store32)...), engine.BadReply, `the score -5`},
	{"score traps", engine.Limits{}, native1("", "proa_score", two, one, nil, Unreachable), engine.Trapped, "proa_score: unreachable"},
	{"score returns an error", engine.Limits{}, native1("", "proa_score", two, one, nil, Const32(1)), engine.BadReply, "proa_score returned 1"},
	{"prescore returns nonsense", engine.Limits{}, native1("", "proa_prescore", two, one, nil, Const32(2)), engine.BadReply, "proa_prescore returned 2"},
	{"prepare traps", engine.Limits{}, prepared(Unreachable), engine.Trapped, "proa_prepare: unreachable"},
	{"prepare returns nonsense", engine.Limits{}, prepared(Reply(replyAt, 10)), engine.BadReply, "the reply is not JSON"},
	{"prepare lies about the place", engine.Limits{}, prepared(Reply(0xfffffff0, 100)), engine.BadReply, "outside the memory"},
	{"prepare lies about the length", engine.Limits{}, prepared(Reply(replyAt, 0x7fffffff)), engine.BadReply, "the limit is"},
	{"prepare answers with 10 MB", engine.Limits{}, prepared(Const32(200), Grow, Drop, Reply(replyAt, 10<<20)), engine.BadReply, "the reply has 10485760 bytes, the limit is 1048576"},
	{"refuses the table", engine.Limits{}, func() []byte {
		m := &Module{}
		m.Memory(64, 0)
		m.Func("proa_abi", nil, []byte{I32}, nil, Const32(abi.Version))
		m.Func("proa_alloc", one, one, nil, Const32(requestAt))
		m.Func("proa_table", one, one, nil, Const32(tableAt))
		m.Func("proa_prepare", two, []byte{I64}, nil, Const64(0))
		m.Func("proa_nodes", []byte{I32, I32, I32, I32}, one, nil, Const32(3))
		m.Func("proa_filter", two, one, nil, Const32(0))
		return m.Bytes()
	}, engine.BadReply, "proa_nodes returned 3"},
	{"gives no memory for the pod", engine.Limits{}, noMemory(0), engine.OutOfMemory, "gave no memory for"},
	{"gives memory that is not there", engine.Limits{}, noMemory(-16), engine.BadReply, "do not fit into memory"},
	{"gives no table", engine.Limits{}, noTable(0), engine.OutOfMemory, "proa_table gave no memory for"},
	{"gives a table that is not there", engine.Limits{}, noTable(0x7fffffff), engine.BadReply, "proa_table returned 0x7fffffff"},
	{"gives a table that is too small", engine.Limits{}, noTable(64*65536 - 100), engine.BadReply, "do not fit into memory"},
}

// noMemory is a guest that gives usual memory at its start only.
func noMemory(at int32) func() []byte {
	return func() []byte {
		m := &Module{}
		m.Memory(64, 0)
		m.Func("proa_abi", nil, []byte{I32}, nil, Const32(abi.Version))
		m.Func("proa_alloc", one, one, nil, Get(0), Const32(16<<10), Op(0x46), If(Const32(requestAt), Return), Const32(at))
		m.Func("proa_table", one, one, nil, Const32(tableAt))
		m.Func("proa_prepare", two, []byte{I64}, nil, Const64(0))
		m.Func("proa_nodes", []byte{I32, I32, I32, I32}, one, nil, Const32(0))
		m.Func("proa_filter", two, one, nil, Const32(0))
		return m.Bytes()
	}
}

func noTable(at int32) func() []byte {
	return func() []byte {
		m := &Module{}
		m.Memory(64, 0)
		m.Func("proa_abi", nil, []byte{I32}, nil, Const32(abi.Version))
		m.Func("proa_alloc", one, one, nil, Const32(requestAt))
		m.Func("proa_table", one, one, nil, Const32(at))
		m.Func("proa_prepare", two, []byte{I64}, nil, Const64(0))
		m.Func("proa_nodes", []byte{I32, I32, I32, I32}, one, nil, Const32(0))
		m.Func("proa_filter", two, one, nil, Const32(0))
		return m.Bytes()
	}
}

// TestEvil has guests misbehave. With failurePolicy Fail the attempt ends with
// plugin and reason, with Ignore it goes on; and a good guest beside them always
// has its say.
func TestEvil(t *testing.T) {
	for _, tc := range evilGuests {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			good := byZone(oneReason)
			evil := f.plugin("evil", tc.wasm(), func(_ *v1.SchedulerPlugin, c *GuestConfig) { c.Limits = tc.limits })
			f.plugin("good", good)
			var c cluster
			c.set("a", inZone("z1"))
			c.set("b", inZone("z2"))
			c.set("c", inZone("z2"))
			c.book("c", newPod("other"))
			for round := range 3 { // the instance is good again
				if round == 2 {
					for i := range 100 { // in a larger table, too
						c.set(fmt.Sprintf("n%d", i), inZone("z1"))
					}
				}
				_, said := f.schedule(&c, newPod("p"))
				want := fmt.Sprintf(": %s: ", tc.reason)
				if !strings.HasPrefix(said, `error: plugin "evil": `) || !strings.Contains(said, want) || !strings.Contains(said, tc.detail) {
					t.Errorf("round %d: %s; want %s and %q", round, said, tc.reason, tc.detail)
				}
			}
			if evil.fails.Load() != 3 {
				t.Errorf("%d failures were counted", evil.fails.Load())
			}
			ignoring := evil.Object().DeepCopy()
			ignoring.Spec.FailurePolicy = "Ignore"
			evil.obj.Store(ignoring)
			for range 2 {
				if r, said := f.schedule(&c, newPod("p")); r.Node != "c" || r.Feasible != 2 {
					t.Errorf("ignoring: got %+v, %s", r, said)
				}
			}
			e, err := framework.Explain(&c.Snapshot, newPod("p"), f.profile())
			if err != nil || len(e.Nodes) != c.Len() || len(e.Nodes[0].Vetoes) != 1 || e.Nodes[0].Vetoes[0].Plugin != "good" {
				t.Errorf("explained as %+v, %v", e, err)
			}
		})
	}
}

// TestTamperedTable has a guest write all over the table: neither another guest
// nor its own next cycle sees it.
func TestTamperedTable(t *testing.T) {
	f := newFixture(t)
	m := &Module{}
	guestModule(m, 1, "")
	m.Func("proa_filter", two, one, nil, GlobalGet(tableGlobal), Const32(7), Const32(3*abi.NodeStride), Fill, Const32(0))
	f.plugin("a-tamper", m.Bytes())
	f.plugin("b-good", byZone(oneReason))
	var c cluster
	c.set("a", inZone("z1"))
	c.set("b", inZone("z2"))
	for range 5 {
		if r, said := f.schedule(&c, newPod("p")); r.Node != "b" {
			t.Fatalf("got %+v, %s", r, said)
		}
	}
}

// TestStart_errors are guests that are refused.
func TestStart_errors(t *testing.T) {
	f := newFixture(t)
	minimal := func(change func(m *Module)) []byte {
		m := &Module{}
		guestModule(m, 1, "")
		change(m)
		return m.Bytes()
	}
	filter := func(m *Module) { m.Func("proa_filter", two, one, nil, Const32(0)) }
	for _, tc := range []struct {
		name   string
		wasm   []byte
		points []v1.SchedulerPoint
		reason engine.Reason
		detail string
	}{
		{"wrong signature", minimal(func(m *Module) { m.Func("proa_filter", one, one, nil, Const32(0)) }), nil, engine.BadReply, "proa_filter is (i32)i32, which should be (i32,i32)i32"},
		{"no table", func() []byte {
			m := &Module{}
			Admission(m, "")
			filter(m)
			return m.Bytes()
		}(), nil, engine.BadReply, "exports proa_filter, but not proa_table"},
		{"no point", Fixed(`{}`), nil, engine.BadReply, "serves no point of scheduling"},
		{"another point", minimal(filter), []v1.SchedulerPoint{v1.PointFilter, v1.PointBind}, engine.BadReply, "does not serve the point Bind, which spec.points names"},
		{"another version", func() []byte {
			m := &Module{}
			m.Memory(1, 0)
			m.Func("proa_abi", nil, one, nil, Const32(0x20000))
			m.Func("proa_alloc", one, one, nil, Const32(requestAt))
			m.Func("proa_reserve", two, []byte{I64}, nil, Const64(0))
			return m.Bytes()
		}(), nil, engine.BadReply, "version 2.0"},
		{"unknown event", minimal(func(m *Module) {
			filter(m)
			m.Custom(abi.ManifestSection, []byte(`{"schedule":{"events":["Moon"]}}`))
		}), nil, engine.BadReply, `unknown event "Moon"`},
		{"refuses settings", minimal(func(m *Module) {
			filter(m)
			m.Data(4000, []byte(`{"valid":false,"message":"no"}`))
			m.Func("proa_configure", two, []byte{I64}, nil, Reply(4000, 30))
		}), nil, "", "no"},
		{"traps", minimal(func(m *Module) { filter(m); m.Func("_initialize", nil, nil, nil, Unreachable) }), nil, engine.Trapped, "_initialize: unreachable"},
	} {
		_, err := f.start(f.load(tc.wasm), GuestConfig{Name: "p", Points: tc.points})
		if err == nil || engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
			t.Errorf("%s: got %v, want %s %q", tc.name, err, tc.reason, tc.detail)
		}
	}
	if _, err := f.host.Start(t.Context(), f.load(Fixed("")), "opa", abi.Manifest{}, GuestConfig{Name: "p"}); err == nil || !strings.Contains(err.Error(), "the ABI opa") {
		t.Errorf("got %v", err)
	}
}
