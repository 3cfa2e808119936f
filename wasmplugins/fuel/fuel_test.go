package fuel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/proa-project/proa/wasmplugins/fuel"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

var errStop = errors.New("stopped")

// A host runs rewritten modules with a budget.
type host struct {
	rt       wazero.Runtime
	refills  int
	budget   int // refills that are left
	overflow bool
}

const quantum = 10_000

func newHost(t testing.TB) *host {
	t.Helper()
	ctx := context.Background()
	h := &host{rt: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(256))}
	t.Cleanup(func() {
		if err := h.rt.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	_, err := h.rt.NewHostModuleBuilder(fuel.Module).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, _ []uint64) {
		h.refills++
		if h.budget--; h.budget < 0 {
			panic(errStop)
		}
		m.ExportedGlobal(fuel.Fuel).(api.MutableGlobal).Set(quantum)
	}), nil, nil).Export(fuel.Refill).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(context.Context, api.Module, []uint64) {
		h.overflow = true
		panic(errStop)
	}), nil, nil).Export(fuel.Overflow).
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) load(t testing.TB, wasm []byte) api.Module {
	t.Helper()
	res, err := fuel.Rewrite(wasm, fuel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.budget = 1000
	m, err := h.rt.InstantiateWithConfig(context.Background(), res.Module, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (h *host) call(m api.Module, name string, budget int, args ...uint64) ([]uint64, error) {
	h.budget, h.overflow = budget, false
	m.ExportedGlobal(fuel.Fuel).(api.MutableGlobal).Set(quantum)
	m.ExportedGlobal(fuel.Depth).(api.MutableGlobal).Set(1000)
	return m.ExportedFunction(name).Call(context.Background(), args...)
}

func guests() *Module {
	m := &Module{}
	m.Memory(1, 0)
	m.Func("spin", nil, nil, nil, Loop(Br(0)))
	fib := m.Func("fib", []byte{I32}, []byte{I32}, nil,
		Get(0), Const32(2), Op(0x48), Op(0x04, I32), Get(0), Op(0x05),
		Get(0), Const32(1), Sub32, Call(1), Get(0), Const32(2), Sub32, Call(1), Add32, Op(0x0b))
	if fib != 1 {
		panic("fib is not function 1")
	}
	m.Func("deep", []byte{I32}, []byte{I32}, nil, // deep(n) = n == 0 ? 0 : 1 + deep(n-1), with an early return
		Get(0), Eqz32, If(Const32(0), Return),
		Get(0), Const32(1), Sub32, Call(2), Const32(1), Add32)
	m.Func("fill", nil, nil, nil, Loop(Const32(0), Const32(7), Const32(65536), Fill, Br(0)))
	m.Func("grow", nil, nil, nil, Loop(Const32(1), Grow, Drop, Br(0)))
	m.Func("early", []byte{I32}, []byte{I32, I64}, nil, // multi-value, return from a nested block
		Block(Block(Get(0), BrIf(0), Const32(5), Const64(6), Return)), Const32(3), Call(1), Const64(8))
	return m
}

func TestStops(t *testing.T) {
	h := newHost(t)
	m := h.load(t, guests().Bytes())
	for _, name := range []string{"spin", "fill", "grow"} {
		if _, err := h.call(m, name, 100); !errors.Is(err, errStop) || h.overflow {
			t.Errorf("%s: %v, want it to run out of fuel", name, err)
		}
	}
	if _, err := h.call(m, "fib", 100, 38); !errors.Is(err, errStop) || h.overflow {
		t.Errorf("fib: %v, want it to run out of fuel", err)
	}
	if _, err := h.call(m, "deep", 100, 1_000_000); !errors.Is(err, errStop) || !h.overflow {
		t.Errorf("deep: %v, want an overflow", err)
	}
	// The instance computes as before, and depth is given back on every way out.
	for range 5000 {
		got, err := h.call(m, "deep", 100, 500)
		if err != nil || got[0] != 500 {
			t.Fatalf("deep(500) = %v, %v", got, err)
		}
	}
	if d := m.ExportedGlobal(fuel.Depth).Get(); d != 1000 {
		t.Errorf("depth is %d after a call, want 1000", d)
	}
	for in, want := range map[uint64][2]uint64{0: {5, 6}, 1: {2, 8}} {
		got, err := h.call(m, "early", 100, in)
		if err != nil || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("early(%d) = %v, %v, want %v", in, got, err, want)
		}
	}
}

func TestStartFunctionIsMetered(t *testing.T) {
	h := newHost(t)
	m := guests()
	m.Start(0)
	res, err := fuel.Rewrite(m.Bytes(), fuel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.budget = 10
	if _, err := h.rt.Instantiate(context.Background(), res.Module); !errors.Is(err, errStop) {
		t.Errorf("instantiate: %v, want it to run out of fuel", err)
	}
}

func TestResult(t *testing.T) {
	m := guests()
	g := m.Global(I32, 7)
	m.Func("bump", nil, nil, nil, GlobalGet(g), Const32(1), Add32, GlobalSet(g))
	res, err := fuel.Rewrite(m.Bytes(), fuel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Globals) != 1 || res.HiddenState {
		t.Errorf("globals %q, hidden %v", res.Globals, res.HiddenState)
	}
	m.Table(0, 1)
	m.Func("unset", nil, nil, nil, Const32(0), Op(0xd0, 0x70), Op(0x26, 0))
	res, err = fuel.Rewrite(m.Bytes(), fuel.Options{})
	if err != nil || !res.HiddenState {
		t.Errorf("a module that sets a table: hidden %v, %v", res.HiddenState, err)
	}
}

// TestImportedMemory: a memory that a module imports becomes its own, between
// imports that stay as they are.
func TestImportedMemory(t *testing.T) {
	m := &Module{}
	m.Import("env", "before", nil, []byte{I32})
	m.ImportMemory("env", "memory", 2)
	m.Import("env", "after", nil, []byte{I32})
	m.Data(65536, []byte{42})
	m.Func("run", nil, []byte{I32}, nil, Const32(65536), Load32, Call(1), Add32, Call(0), Add32)
	m.Func("size", nil, []byte{I32}, nil, Op(0x3f, 0))
	res, err := fuel.Rewrite(m.Bytes(), fuel.Options{})
	if err != nil || res.MemoryPages != 2 {
		t.Fatalf("%v, %d pages", err, res.MemoryPages)
	}
	h := newHost(t)
	b := h.rt.NewHostModuleBuilder("env")
	for name, v := range map[string]uint64{"before": 1000, "after": 100} {
		b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, s []uint64) { s[0] = v }), nil, []api.ValueType{api.ValueTypeI32}).Export(name)
	}
	if _, err := b.Instantiate(context.Background()); err != nil {
		t.Fatal(err)
	}
	mod := h.load(t, m.Bytes())
	if got, err := h.call(mod, "run", 10); err != nil || got[0] != 1142 {
		t.Errorf("run() = %v, %v", got, err)
	}
	if got, err := h.call(mod, "size", 10); err != nil || got[0] != 2 || mod.Memory().Size() != 2<<16 {
		t.Errorf("size() = %v, %v", got, err)
	}
	m.HiddenMemory(1)
	if _, err := fuel.Rewrite(m.Bytes(), fuel.Options{}); !errors.Is(err, fuel.ErrUnsupported) {
		t.Errorf("a second memory: %v", err)
	}
	m = &Module{}
	m.ImportMemory("a", "a", 1)
	m.ImportMemory("b", "b", 1)
	if _, err := fuel.Rewrite(m.Bytes(), fuel.Options{}); !errors.Is(err, fuel.ErrUnsupported) {
		t.Errorf("two imported memories: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	with := func(f func(m *Module)) []byte { m := guests(); f(m); return m.Bytes() }
	for _, tc := range []struct {
		name string
		wasm []byte
		opts fuel.Options
		want error
	}{
		{"empty", nil, fuel.Options{}, fuel.ErrMalformed},
		{"component", []byte{0, 'a', 's', 'm', 13, 0, 1, 0}, fuel.Options{}, fuel.ErrMalformed},
		{"truncated", guests().Bytes()[:40], fuel.Options{}, fuel.ErrMalformed},
		{"names the meter", with(func(m *Module) { *m = Module{}; m.Import(fuel.Module, fuel.Refill, nil, nil) }), fuel.Options{}, fuel.ErrUnsupported},
		{"exports the fuel", with(func(m *Module) { m.Export(fuel.Fuel, 0, 0) }), fuel.Options{}, fuel.ErrUnsupported},
		{"sets the fuel", with(func(m *Module) { m.Func("x", nil, nil, nil, Const64(1), GlobalSet(0)) }), fuel.Options{}, fuel.ErrMalformed},
		{"gets the fuel", with(func(m *Module) { m.Global(I32, 1); m.Func("x", nil, nil, nil, GlobalGet(1), Drop) }), fuel.Options{}, fuel.ErrMalformed},
		{"reads our locals", with(func(m *Module) { m.Func("x", nil, nil, nil, Get(0), Drop) }), fuel.Options{}, fuel.ErrMalformed},
		{"calls past the end", with(func(m *Module) { m.Func("x", nil, nil, nil, Call(99)) }), fuel.Options{}, fuel.ErrMalformed},
		{"throws", with(func(m *Module) { m.Func("x", nil, nil, nil, Op(0x08, 0)) }), fuel.Options{}, fuel.ErrUnsupported},
		{"waits for threads", with(func(m *Module) { m.Func("x", nil, nil, nil, Op(0xfe, 0, 2, 0)) }), fuel.Options{}, fuel.ErrUnsupported},
		{"large", guests().Bytes(), fuel.Options{MaxModule: 100}, fuel.ErrUnsupported},
		{"large body", guests().Bytes(), fuel.Options{MaxBody: 10}, fuel.ErrUnsupported},
		{"many functions", guests().Bytes(), fuel.Options{MaxItems: 2}, fuel.ErrUnsupported},
	} {
		if _, err := fuel.Rewrite(tc.wasm, tc.opts); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}
