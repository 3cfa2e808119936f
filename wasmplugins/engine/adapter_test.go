package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// command is a guest that writes its second argument and its input to its
// standard output, in pieces of eight bytes, and exits.
func command() []byte {
	m := &Module{}
	wasi := "wasi_snapshot_preview1"
	four := []byte{I32, I32, I32, I32}
	get := m.Import(wasi, "args_get", []byte{I32, I32}, []byte{I32})
	sizes := m.Import(wasi, "args_sizes_get", []byte{I32, I32}, []byte{I32})
	read := m.Import(wasi, "fd_read", four, []byte{I32})
	write := m.Import(wasi, "fd_write", four, []byte{I32})
	exit := m.Import(wasi, "proc_exit", []byte{I32}, nil)
	m.Memory(1, 0)
	m.Data(96, []byte{128, 0, 0, 0, 8, 0, 0, 0}) // one vector: 8 bytes at 128
	m.Func("_start", nil, nil, nil,
		Const32(0), Const32(4), Call(sizes), Drop,
		Const32(16), Const32(256), Call(get), Drop,
		// The second argument, whose length is all but the first's and a zero.
		Const32(80), Const32(0), Op(0x28, 2, 20), Store32, // [80] = [20], where it is
		Const32(84), Const32(0), Op(0x28, 2, 4), Const32(256), Add32, Const32(1), Sub32, Const32(0), Op(0x28, 2, 20), Sub32, Store32,
		Const32(1), Const32(80), Const32(1), Const32(92), Call(write), Drop,
		Loop(
			Const32(100), Const32(8), Store32,
			Const32(0), Const32(96), Const32(1), Const32(92), Call(read), Drop,
			Const32(100), Const32(0), Op(0x28, 2, 92), Store32,
			Const32(1), Const32(96), Const32(1), Const32(88), Call(write), Drop,
			Const32(0), Op(0x28, 2, 92), BrIf(0)),
		Const32(0), Call(exit))
	return m.Bytes()
}

func TestCommand(t *testing.T) {
	e := newEngine(t, engine.Config{})
	p := start(t, e, command(), engine.ProgramConfig{Name: "cat", Command: true, Exports: []string{"_start"}})
	run := func(c engine.Call) (string, error) {
		var out string
		_, err := p.Do(context.Background(), c, func(i *engine.Instance) error {
			_, err := i.Call(0)
			out = string(i.Output())
			return err
		})
		return out, err
	}
	for range 3 {
		out, err := run(engine.Call{Args: []string{"policy.wasm", "validate"}, Stdin: []byte(" this is the input"), Stdout: 100})
		if err != nil || out != "validate this is the input" {
			t.Errorf("%q, %v", out, err)
		}
	}
	out, err := run(engine.Call{Args: []string{"a", "b"}, Stdin: []byte(strings.Repeat("x", 200)), Stdout: 100})
	if engine.ReasonOf(err) != engine.BadReply || !strings.Contains(err.Error(), "more than 100 bytes") || len(out) > 100 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

// nested is a guest whose export run calls the host, which calls inner.
func nested(inner ...[]byte) []byte {
	m := &Module{}
	back := m.Import("env", "back", []byte{I32}, []byte{I32})
	if back != 0 {
		panic("back is not function 0")
	}
	m.Memory(1, 0)
	m.Func("run", nil, []byte{I32}, nil, Const32(20), Call(back), Const32(1), Add32)
	m.Func("inner", []byte{I32}, []byte{I32}, nil, inner...)
	m.Export("value", 3, m.Global(I32, 77))
	return m.Bytes()
}

func TestNested(t *testing.T) {
	e := newEngine(t, engine.Config{})
	i32 := []api.ValueType{api.ValueTypeI32}
	config := engine.ProgramConfig{
		Name: "n", Exports: []string{"run", "inner"}, Limits: engine.Limits{Fuel: 1_000_000},
		Imports: []engine.Import{{Module: "env", Name: "back", Params: i32, Results: i32, Call: func(i *engine.Instance, s []uint64) {
			if g, ok := i.Global("value"); !ok || g != 77 {
				t.Errorf("the global is %d, %v", g, ok)
			}
			if _, ok := i.Global("none"); ok {
				t.Error("there is a global that is none")
			}
			s[0] = i.Nested(1, s[0])
		}}},
	}
	for _, tc := range []struct {
		name   string
		inner  [][]byte
		reason engine.Reason
		detail string
	}{
		{"adds", [][]byte{Get(0), Get(0), Add32}, "", ""},
		{"traps", [][]byte{Unreachable}, engine.Trapped, "run: unreachable"},
		{"loops", [][]byte{Loop(Br(0)), Unreachable}, engine.FuelExhausted, "took more than"},
		{"recurses", [][]byte{Get(0), Call(2)}, engine.StackOverflow, "nested more than"},
		{"calls the host again", [][]byte{Get(0), Call(0)}, engine.Trapped, "called the host from within inner"},
	} {
		p := start(t, e, nested(tc.inner...), config)
		for range 3 {
			got, _, err := call(p)
			if tc.reason == "" {
				if err != nil || got != 41 {
					t.Errorf("%s: %d, %v", tc.name, got, err)
				}
				continue
			}
			if engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("%s: %v, want %s: %s", tc.name, err, tc.reason, tc.detail)
			}
		}
	}
}

// TestAdapter is what an import may do with the instance that calls it.
func TestAdapter(t *testing.T) {
	e := newEngine(t, engine.Config{})
	m := &Module{}
	f := m.Import("env", "f", nil, nil)
	m.ImportMemory("env", "memory", 1) // becomes the module's own
	m.Data(8, []byte("text\x00more"))
	m.Func("run", nil, []byte{I32}, nil, Call(f), Const32(1))
	var lines []string
	try := func(*engine.Instance) {}
	p := start(t, e, m.Bytes(), engine.ProgramConfig{
		Name: "a", Exports: []string{"run"}, Log: func(_ engine.Level, b []byte) { lines = append(lines, string(b)) },
		Imports: []engine.Import{{Module: "env", Name: "f", Call: func(i *engine.Instance, _ []uint64) { try(i) }}},
		Capability: func(_ context.Context, op string, req []byte) ([]byte, error) {
			if op == "bad" {
				return nil, errors.New("no")
			}
			return append([]byte(op), req...), nil
		},
	})
	for _, tc := range []struct {
		name   string
		try    func(i *engine.Instance)
		reason engine.Reason
	}{
		{"strings", func(i *engine.Instance) {
			if b, ok := i.CString(8, 4); !ok || string(b) != "text" {
				t.Errorf("%q, %v", b, ok)
			}
			for _, at := range []uint32{65536, 0xffffffff} {
				if _, ok := i.CString(at, 10); ok {
					t.Error("a string outside the memory")
				}
			}
			if _, ok := i.CString(8, 3); ok {
				t.Error("a string that is too long")
			}
		}, ""},
		{"argument", func(i *engine.Instance) {
			if b := i.Argument(8, 4); string(b) != "text" {
				t.Errorf("%q", b)
			}
			i.Argument(65530, 100)
		}, engine.Trapped},
		{"asks", func(i *engine.Instance) {
			if b, err := i.Ask("op", []byte("-r")); err != nil || string(b) != "op-r" {
				t.Errorf("%q, %v", b, err)
			}
			if _, err := i.Ask("bad", nil); err == nil {
				t.Error("no error")
			}
			i.Print(engine.Warn, []byte("said"))
		}, ""},
		{"asks too often", func(i *engine.Instance) {
			for range 40 {
				_, _ = i.Ask("op", nil)
			}
		}, engine.CapabilityDenied},
		{"stops", func(i *engine.Instance) { i.Stop(engine.BadReply, "because %d", 7) }, engine.BadReply},
	} {
		try = tc.try
		if _, _, err := call(p); engine.ReasonOf(err) != tc.reason {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	_, err := p.Do(context.Background(), engine.Call{}, func(i *engine.Instance) error {
		if b, err := i.Fetch("op", []byte("-r")); err != nil || string(b) != "op-r" {
			t.Errorf("%q, %v", b, err)
		}
		for range 40 {
			if _, err := i.Fetch("op", nil); err != nil {
				return err
			}
		}
		return nil
	})
	if engine.ReasonOf(err) != engine.CapabilityDenied {
		t.Errorf("fetching too often: %v", err)
	}
	if len(lines) != 1 || lines[0] != "said" {
		t.Errorf("%q", lines)
	}
}
