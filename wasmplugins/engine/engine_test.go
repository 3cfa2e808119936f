package engine_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEngine(t testing.TB, c engine.Config) *engine.Engine {
	t.Helper()
	e, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func start(t testing.TB, e *engine.Engine, wasm []byte, c engine.ProgramConfig) *engine.Program {
	t.Helper()
	code, err := e.Load(context.Background(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(code.Close)
	p, err := e.Start(context.Background(), code, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// call calls the first export without arguments.
func call(p *engine.Program) (uint64, engine.Usage, error) {
	var got uint64
	u, err := p.Do(context.Background(), engine.Call{Seed: "uid-1"}, func(i *engine.Instance) (err error) {
		got, err = i.Call(0)
		return err
	})
	return got, u, err
}

const page = 65536

// evil are guests that misbehave in one way each, and what must be said.
var evil = []struct {
	name   string
	limits engine.Limits
	wasm   func(m *Module)
	reason engine.Reason
	detail string
}{
	{"loops for ever", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Loop(Br(0)), Unreachable)
	}, engine.DeadlineExceeded, "ran longer than 30ms"},
	{"burns fuel", engine.Limits{Fuel: 1_000_000}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Loop(Br(0)), Unreachable)
	}, engine.FuelExhausted, "took more than 1000000 units"},
	{"recurses", engine.Limits{}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Call(0))
	}, engine.StackOverflow, "nested more than 32768 calls"},
	{"recurses widely", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Const32(40), Call(1))
		m.Func("", []byte{I32}, []byte{I32}, nil, Get(0), Const32(2), Op(0x48), Op(0x04, I32), Get(0), Op(0x05),
			Get(0), Const32(1), Sub32, Call(1), Get(0), Const32(2), Sub32, Call(1), Add32, Op(0x0b))
	}, engine.DeadlineExceeded, "ran longer than 30ms"},
	{"grows memory", engine.Limits{Memory: 4 << 20}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Loop(Const32(1), Grow, Const32(0), Op(0x4e), BrIf(0)), Unreachable)
	}, engine.OutOfMemory, "needed more than 4 MiB of memory"},
	{"grows tables", engine.Limits{}, func(m *Module) { // a table is in the host's memory
		m.Table(0)
		m.Func("run", nil, []byte{I32}, nil, Op(0xd0, 0x70), Const32(1<<30), Op(0xfc, 15, 0), Const32(-1), Op(0x46), If(Unreachable), Const32(0))
	}, engine.Trapped, "run: unreachable"},
	{"fills memory", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Loop(Const32(0), Const32(1), Const32(page), Fill, Br(0)), Unreachable)
	}, engine.DeadlineExceeded, "ran longer than 30ms"},
	{"traps", engine.Limits{}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Unreachable)
	}, engine.Trapped, "run: unreachable"},
	{"reads outside", engine.Limits{}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Const32(-4), Load32)
	}, engine.Trapped, "out of bounds memory access"},
	{"divides by zero", engine.Limits{}, func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Const32(1), Const32(0), Op(0x6d))
	}, engine.Trapped, "integer divide by zero"},
	{"exits", engine.Limits{}, func(m *Module) {
		exit := m.Import("wasi_snapshot_preview1", "proc_exit", []byte{I32}, nil)
		m.Func("run", nil, []byte{I32}, nil, Const32(3), Call(exit), Unreachable)
	}, engine.Trapped, "exited with code 3"},
	{"asks for a capability", engine.Limits{}, func(m *Module) {
		ask := m.Import("proa", "call", []byte{I32, I32, I32, I32}, []byte{I32})
		m.Data(0, []byte("kube.get"))
		m.Func("run", nil, []byte{I32}, nil, Const32(0), Const32(8), Const32(0), Const32(0), Call(ask))
	}, engine.CapabilityDenied, `called "kube.get", which is not granted`},
	{"lies to the host", engine.Limits{}, func(m *Module) {
		log := m.Import("proa", "log", []byte{I32, I32, I32}, nil)
		m.Func("run", nil, []byte{I32}, nil, Const32(0), Const32(100), Const32(-1), Call(log), Const32(0))
	}, engine.Trapped, "outside its memory"},
	{"draws randomness for ever", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, func(m *Module) {
		random := m.Import("wasi_snapshot_preview1", "random_get", []byte{I32, I32}, []byte{I32})
		m.Func("run", nil, []byte{I32}, nil, Loop(Const32(0), Const32(page), Call(random), Drop, Br(0)), Unreachable)
	}, engine.DeadlineExceeded, "ran longer than 30ms"},
	{"floods the log", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, func(m *Module) {
		log := m.Import("proa", "log", []byte{I32, I32, I32}, nil)
		m.Func("run", nil, []byte{I32}, nil, Loop(Const32(0), Const32(0), Const32(page), Call(log), Br(0)), Unreachable)
	}, engine.DeadlineExceeded, "ran longer than 30ms"},
	{"sleeps", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, func(m *Module) {
		poll := m.Import("wasi_snapshot_preview1", "poll_oneoff", []byte{I32, I32, I32, I32}, []byte{I32})
		m.Func("run", nil, []byte{I32}, nil, Loop(Const32(0), Const32(1024), Const32(1), Const32(2048), Call(poll), Drop, Br(0)), Unreachable)
	}, engine.DeadlineExceeded, "ran longer than 30ms"},
}

// build makes the module; imports come first, the memory is one page.
func build(f func(m *Module)) []byte {
	m := &Module{}
	m.Memory(1, 0)
	f(m)
	return m.Bytes()
}

func TestEvil(t *testing.T) {
	for _, plain := range []bool{false, true} {
		e := newEngine(t, engine.Config{PlainMemory: plain})
		for _, tc := range evil {
			t.Run(tc.name, func(t *testing.T) {
				var logged int
				p := start(t, e, build(tc.wasm), engine.ProgramConfig{
					Name: "evil", Limits: tc.limits, Exports: []string{"run"}, Instances: 1,
					Log: func(_ engine.Level, line []byte) { logged += len(line) },
				})
				for range 3 { // each time from the same state
					begin := time.Now()
					_, _, err := call(p)
					if took := time.Since(begin); took > 2*time.Second {
						t.Errorf("took %v", took)
					}
					var ee *engine.Error
					if !errors.As(err, &ee) || ee.Reason != tc.reason || !strings.Contains(ee.Detail, tc.detail) || ee.Plugin != "evil" {
						t.Fatalf("got %v, want %s: %s", err, tc.reason, tc.detail)
					}
				}
				if logged > 3*9000 {
					t.Errorf("%d bytes were logged", logged)
				}
			})
		}
	}
}

// stateful counts in memory, far out in memory, and in a global.
func stateful(m *Module) {
	g := m.Global(I32, 100)
	bump := func(at int32) [][]byte {
		return [][]byte{Const32(at), Const32(at), Load32, Const32(1), Add32, Store32}
	}
	code := [][]byte{GlobalGet(g), Const32(1), Add32, GlobalSet(g)}
	code = append(code, bump(8)...)
	code = append(code, bump(40*page)...)
	code = append(code, Const32(8), Load32, Const32(40*page), Load32, Add32, GlobalGet(g), Add32)
	m.Func("run", nil, []byte{I32}, nil, code...)
	m.Func("_initialize", nil, nil, nil, Const32(8), Const32(1000), Store32)
}

func TestEveryCallBeginsInTheSnapshot(t *testing.T) {
	for _, plain := range []bool{false, true} {
		e := newEngine(t, engine.Config{PlainMemory: plain})
		m := &Module{}
		m.Memory(50, 0)
		stateful(m)
		m.Func("trap", nil, nil, nil, Const32(20*page), Const32(1), Store32, Const32(8), Const32(5), Store32, Unreachable)
		p := start(t, e, m.Bytes(), engine.ProgramConfig{
			Name: "p", Exports: []string{"run", "trap"}, Instances: 2,
			Warm: func(i *engine.Instance) error { // the state after one call is the first state
				_, err := i.Call(0)
				return err
			},
		})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for n := range 500 {
					got, _, err := call(p)
					if err != nil || got != 1002+2+102 {
						t.Errorf("call %d: %d, %v", n, got, err)
						return
					}
					if n%10 == 0 {
						_, err := p.Do(context.Background(), engine.Call{}, func(i *engine.Instance) error {
							_, err := i.Call(1)
							return err
						})
						if engine.ReasonOf(err) != engine.Trapped {
							t.Errorf("trap: %v", err)
						}
					}
					if n%50 != 0 {
						continue
					}
					// All of the memory is as it was.
					_, err = p.Do(context.Background(), engine.Call{}, func(i *engine.Instance) error {
						b, _ := i.Read(0, 50*page)
						if b[8] != 0xe9 || b[40*page] != 1 || !zero(b[12:40*page]) || !zero(b[40*page+4:]) {
							t.Errorf("memory is not restored")
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

func TestInstancesThatCannotBeRestoredAreReplaced(t *testing.T) {
	e := newEngine(t, engine.Config{})
	m := &Module{}
	m.Memory(1, 0)
	m.Func("run", nil, []byte{I32}, nil, Const32(1), Grow, // the old size
		Const32(0), Op(0x25, 0), Op(0xd1), Const32(100), Op(0x6c), Add32, // +100 once the table is cleared
		Const32(0), Op(0xd0, 0x70), Op(0x26, 0))
	m.Table(0)
	p := start(t, e, m.Bytes(), engine.ProgramConfig{Name: "p", Exports: []string{"run"}})
	for range 5 {
		if got, u, err := call(p); err != nil || got != 1 || u.Memory != 2*page {
			t.Fatalf("got %d, %+v, %v; want 1", got, u, err)
		}
	}
}

func TestClosing(t *testing.T) {
	e := newEngine(t, engine.Config{})
	m := &Module{}
	m.Memory(50, 0)
	stateful(m)
	p := start(t, e, m.Bytes(), engine.ProgramConfig{Name: "p", Exports: []string{"run"}, Instances: 2})
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				_, _, err := call(p)
				if errors.Is(err, engine.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for calls.Load() < 100 {
		runtime.Gosched()
	}
	p.Close()
	wg.Wait()
}

func TestWaitingForAnInstanceEndsWithTheRequest(t *testing.T) {
	e := newEngine(t, engine.Config{})
	p := start(t, e, build(func(m *Module) { m.Func("run", nil, []byte{I32}, nil, Const32(7)) }), engine.ProgramConfig{Name: "p", Exports: []string{"run"}, Instances: 1})
	_, err := p.Do(context.Background(), engine.Call{}, func(*engine.Instance) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_, err := p.Do(ctx, engine.Call{}, func(*engine.Instance) error { return nil })
		return err
	})
	if engine.ReasonOf(err) != engine.DeadlineExceeded {
		t.Errorf("%v, want DeadlineExceeded", err)
	}
	if got, _, err := call(p); got != 7 || err != nil {
		t.Errorf("afterwards: %d, %v", got, err)
	}
}

func TestRequestCancelsGuest(t *testing.T) {
	e := newEngine(t, engine.Config{})
	p := start(t, e, build(evil[0].wasm), engine.ProgramConfig{Name: "p", Exports: []string{"run"}, Limits: engine.Limits{Timeout: time.Hour, Fuel: 1 << 60}})
	ctx, cancel := context.WithCancel(context.Background())
	_, err := p.Do(ctx, engine.Call{}, func(i *engine.Instance) error {
		cancel()
		_, err := i.Call(0)
		return err
	})
	if engine.ReasonOf(err) != engine.Canceled {
		t.Errorf("%v, want Canceled", err)
	}
}

func TestWorld(t *testing.T) {
	e := newEngine(t, engine.Config{})
	m := &Module{}
	clock := m.Import("wasi_snapshot_preview1", "clock_time_get", []byte{I32, I64, I32}, []byte{I32})
	random := m.Import("wasi_snapshot_preview1", "random_get", []byte{I32, I32}, []byte{I32})
	open := m.Import("wasi_snapshot_preview1", "path_open", []byte{I32, I32, I32, I32, I32, I64, I64, I32, I32}, []byte{I32})
	m.Memory(1, 0)
	m.Func("run", nil, []byte{I32}, nil,
		Const32(0), Const64(1), Const32(0), Call(clock), Drop,
		Const32(1), Const64(1), Const32(8), Call(clock), Drop,
		Const32(16), Const32(8), Call(random), Drop,
		Const32(3), Const32(0), Const32(0), Const32(0), Const32(0), Const64(0), Const64(0), Const32(0), Const32(0), Call(open))
	p := start(t, e, m.Bytes(), engine.ProgramConfig{Name: "p", Exports: []string{"run"}})
	now := time.Unix(1234567890, 5)
	world := func(seed string) (random [8]byte) {
		_, err := p.Do(context.Background(), engine.Call{Seed: seed, Now: now}, func(i *engine.Instance) error {
			if no, err := i.Call(0); no != 52 || err != nil {
				t.Errorf("path_open: %d, %v, want ENOSYS", no, err)
			}
			b, _ := i.Read(0, 24)
			if wall := le(b); wall != uint64(now.UnixNano()) {
				t.Errorf("wall clock %d", wall)
			}
			if mono := le(b[8:]); mono == 0 || mono%uint64(20*time.Millisecond) != 0 {
				t.Errorf("monotonic clock %d is not in steps of 20 ms", mono)
			}
			copy(random[:], b[16:])
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return random
	}
	a, b, c := world("a"), world("a"), world("b")
	if a != b || a == c || zero(a[:]) {
		t.Errorf("randomness %x %x %x, want the first two alike", a, b, c)
	}
}

func le(b []byte) (v uint64) {
	for i := range 8 {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

func TestNoMemory(t *testing.T) {
	e := newEngine(t, engine.Config{})
	m := &Module{}
	log := m.Import("proa", "log", []byte{I32, I32, I32}, nil)
	m.Func("run", nil, []byte{I32}, nil, Const32(7))
	m.Func("log", nil, nil, nil, Const32(0), Const32(0), Const32(0), Call(log))
	p := start(t, e, m.Bytes(), engine.ProgramConfig{Name: "p", Exports: []string{"run", "log"}})
	for range 3 {
		if got, u, err := call(p); got != 7 || u.Memory != 0 || err != nil {
			t.Errorf("%d, %+v, %v", got, u, err)
		}
		_, err := p.Do(context.Background(), engine.Call{}, func(i *engine.Instance) error { _, err := i.Call(1); return err })
		if engine.ReasonOf(err) != engine.Trapped {
			t.Errorf("log without a memory: %v", err)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	e := newEngine(t, engine.Config{})
	for name, wasm := range map[string][]byte{
		"text":             []byte("(module)"),
		"type error":       build(func(m *Module) { m.Func("x", nil, []byte{I32}, nil, Const64(1)) }),
		"unknown function": build(func(m *Module) { m.Func("x", nil, nil, nil, Call(9)) }),
		"steals the fuel":  build(func(m *Module) { m.Import("proa:meter", "refill", nil, nil) }),
	} {
		if _, err := e.Load(context.Background(), wasm); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestStartErrors(t *testing.T) {
	e := newEngine(t, engine.Config{})
	for _, tc := range []struct {
		name   string
		wasm   func(m *Module)
		reason engine.Reason
		detail string
	}{
		{"import", func(m *Module) { m.Import("env", "open", nil, nil); m.Func("run", nil, nil, nil) }, engine.CapabilityDenied, "imports env.open"},
		{"export", func(*Module) {}, engine.BadReply, "does not export the function run"},
		{"memory", func(m *Module) { m.HiddenMemory(2000); m.Func("run", nil, nil, nil) }, engine.OutOfMemory, "begins with 125 MiB of memory, the limit is 32 MiB"},
		{"data", func(m *Module) { m.Memory(1, 0); m.Data(65530, make([]byte, 100)); m.Func("run", nil, nil, nil) }, engine.Trapped, "out of bounds"},
		{"initialize", func(m *Module) { m.Func("run", nil, nil, nil); m.Func("_initialize", nil, nil, nil, Unreachable) }, engine.Trapped, "_initialize: unreachable"},
		{"start spins", func(m *Module) {
			m.Func("run", nil, nil, nil)
			m.Start(m.Func("", nil, nil, nil, Loop(Br(0))))
		}, engine.FuelExhausted, "took more than"},
	} {
		m := &Module{}
		tc.wasm(m)
		code, err := e.Load(context.Background(), m.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		_, err = e.Start(context.Background(), code, engine.ProgramConfig{Name: "p", Exports: []string{"run"}, Limits: engine.Limits{Fuel: 10000}})
		if engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
			t.Errorf("%s: %v, want %s: %s", tc.name, err, tc.reason, tc.detail)
		}
		code.Close()
	}
}

func TestDiskCache(t *testing.T) {
	dir := t.TempDir()
	wasm := build(func(m *Module) {
		m.Func("run", nil, []byte{I32}, nil, Const32(7))
		m.Custom("proa.manifest", []byte("{}"))
	})
	for n := range 2 {
		e := newEngine(t, engine.Config{CacheDir: dir})
		code, err := e.Load(context.Background(), wasm)
		if err != nil {
			t.Fatal(err)
		}
		if code.CacheHit != (n == 1) || code.Exports["run"] != "()i32" || string(code.Sections["proa.manifest"]) != "{}" {
			t.Errorf("load %d: hit %v, %+v", n, code.CacheHit, code.Info)
		}
		p, err := e.Start(context.Background(), code, engine.ProgramConfig{Name: "p", Exports: []string{"run"}})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := call(p); got != 7 || err != nil {
			t.Errorf("load %d: %d, %v", n, got, err)
		}
		p.Close()
		code.Close()
	}
}
