package kubewarden_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/kubewarden"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

const accepted = `{"accepted":true}` // stands at 200 in a script

// TestMisbehavior: a policy that misbehaves in one way each ends with the right
// reason, and does so again.
func TestMisbehavior(t *testing.T) {
	say := func(ptr, n int32) []byte { return append(append(Const32(ptr), Const32(n)...), Call(response)...) }
	call := func(payload, n int32) [][]byte {
		return [][]byte{Const32(64), Const32(10), Const32(74), Const32(10), Const32(84), Const32(5), Const32(payload), Const32(n), Call(hostCall)}
	}
	grant := func(context.Context, string, []byte) ([]byte, error) { return []byte(`{"allowed":true}`), nil }
	for _, tc := range []struct {
		name   string
		limits engine.Limits
		code   [][]byte
		reason engine.Reason
		detail string
	}{
		{"good", engine.Limits{}, [][]byte{say(200, 17)}, "", ""},
		{"traps", engine.Limits{}, [][]byte{Unreachable}, engine.Trapped, "__guest_call: unreachable"},
		{"loops", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, [][]byte{Loop(Br(0))}, engine.DeadlineExceeded, "ran longer than 30ms"},
		{"burns", engine.Limits{Fuel: 1_000_000, Timeout: time.Minute}, [][]byte{Loop(Br(0))}, engine.FuelExhausted, "took more than 1000000 units"},
		{"recurses", engine.Limits{Timeout: time.Minute}, [][]byte{Get(0), Get(1), Call(guestCall), Drop}, engine.StackOverflow, "nested more than"},
		{"grows", engine.Limits{Timeout: time.Minute, Fuel: 1 << 50}, [][]byte{Loop(Const32(16), Grow, Const32(0), Op(0x4e), BrIf(0)), Unreachable}, engine.OutOfMemory, "needed more than 32 MiB"},
		{"floods the console", engine.Limits{Timeout: time.Minute}, [][]byte{
			Const32(1000), Set(2), Loop(Const32(0), Const32(60000), Call(console), Get(2), Const32(1), Sub32, Op(0x22, 2), BrIf(0)), say(200, 17),
		}, "", ""},
		{"says nothing", engine.Limits{}, nil, engine.BadReply, "validate gave no answer"},
		{"fails", engine.Limits{}, [][]byte{Const32(64), Const32(10), Call(failure)}, engine.Trapped, "validate failed: error: kubewarden"},
		{"fails without a word", engine.Limits{}, [][]byte{Const32(0), Return}, engine.Trapped, "validate failed: no reason given"},
		{"replies from outside", engine.Limits{}, [][]byte{say(-16, 100)}, engine.Trapped, "outside its memory"},
		{"replies without end", engine.Limits{}, [][]byte{say(0, -1)}, engine.BadReply, "the limit is 4194304"},
		{"replies 10 MB", engine.Limits{}, [][]byte{Const32(200), Grow, Drop, say(0, 10<<20)}, engine.BadReply, "the reply has 10485760 bytes"},
		{"replies 2 MB without an object", engine.Limits{}, [][]byte{
			Const32(40), Grow, Drop, Const32(300), Const32(32), Const32(2 << 20), Fill, Const32(300), Const32(200), Const32(17), Op(0xfc, 10, 0, 0), say(300, 2<<20),
		}, engine.BadReply, "the limit is 1048576"},
		{"replies nonsense", engine.Limits{}, [][]byte{say(64, 10)}, engine.BadReply, "no validation response"},
		{"does not say", engine.Limits{}, [][]byte{say(4, 14)}, engine.BadReply, `does not say "accepted"`},
		{"fetches to outside", engine.Limits{}, [][]byte{Const32(-8), Const32(0), Call(guestRequest)}, engine.Trapped, "wants 8 bytes at 0xfffffff8"},
		{"asks from outside", engine.Limits{}, append(call(-4, 100), Drop), engine.Trapped, "outside its memory"},
		{"asks without end", engine.Limits{}, append(call(0, -1), Drop), engine.Trapped, "outside its memory"},
		{"takes to outside", engine.Limits{}, append(call(128, 46), Drop, Const32(-1), Call(hostResponse)), engine.Trapped, "which is outside its memory"},
		{"asks for ever", engine.Limits{Timeout: time.Minute}, [][]byte{Loop(append(call(128, 46), Drop, Br(0))...)}, engine.CapabilityDenied, "more than 32 host calls"},
		{"asks nonsense for ever", engine.Limits{Timeout: time.Minute}, [][]byte{Loop(append(call(128, 2), Drop, Br(0))...)}, engine.FuelExhausted, "took more than"},
		{"aborts", engine.Limits{}, [][]byte{Const32(0), Const32(-1), Const32(7), Const32(9), Call(abort)}, engine.Trapped, "aborted: ? at ?:7:9"},
	} {
		logged := 0
		p := start(t, script("", []byte{I32}, tc.code...), kubewarden.Config{Limits: tc.limits, Capability: grant, Log: func(_ engine.Level, b []byte) { logged += len(b) }})
		for range 3 {
			r, _, err := admit(p, abi.PhaseValidate, bare)
			if tc.reason == "" {
				if err != nil || !r.Allowed {
					t.Errorf("%s: %+v, %v", tc.name, r, err)
				}
				continue
			}
			if engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
				t.Errorf("%s: %v, want %s: %s", tc.name, err, tc.reason, tc.detail)
			}
		}
		if logged > 3*9000 {
			t.Errorf("%s: %d bytes were logged", tc.name, logged)
		}
	}
}

// TestStartRefusals: what cannot work is refused at the start.
func TestStartRefusals(t *testing.T) {
	with := func(f func(m *Module)) []byte {
		m := &Module{}
		f(m)
		return m.Bytes()
	}
	say := func(reply string) func(m *Module) {
		return func(m *Module) {
			scriptImports(m)
			m.Memory(1, 0)
			m.Data(0, []byte(reply))
			m.Func("__guest_call", []byte{I32, I32}, []byte{I32}, nil, Const32(0), Const32(int32(len(reply))), Call(response), Const32(1))
		}
	}
	for _, tc := range []struct {
		name   string
		wasm   []byte
		reason engine.Reason
		detail string
	}{
		{"another version", with(say(`"v2"`)), engine.BadReply, `protocol version is "v2", wanted is "v1"`},
		{"no version", with(say(`{}`)), engine.BadReply, "protocol version"},
		{"no call", with(func(m *Module) { scriptImports(m); m.Memory(1, 0) }), engine.BadReply, "does not export the function __guest_call"},
		{"unknown import", with(func(m *Module) {
			m.Import("env", "system", nil, nil)
			m.Memory(1, 0)
			m.Func("__guest_call", []byte{I32, I32}, []byte{I32}, nil, Const32(1))
		}), engine.CapabilityDenied, "env.system"},
		{"another signature", with(func(m *Module) {
			m.Import("wapc", "__guest_response", nil, nil)
			m.Memory(1, 0)
			m.Func("__guest_call", []byte{I32, I32}, []byte{I32}, nil, Const32(1))
		}), engine.Trapped, "signature mismatch"},
		{"speaks before it is asked", with(func(m *Module) {
			say(`"v1"`)(m)
			m.Start(m.Func("", nil, nil, nil, Const32(0), Const32(4), Call(response)))
		}), engine.Trapped, "when it had not been asked anything"},
		{"raw", script(`{"policyType":"raw"}`, nil), engine.BadReply, "judges raw requests"},
		{"broken metadata", script(`{`, nil), engine.BadReply, "section io.kubewarden.metadata"},
		{"another ABI", Fixed(""), engine.BadReply, `ABI is "proa/v1"`},
		{"a command that traps", withSection(with(func(m *Module) { m.Memory(1, 0); m.Func("_start", nil, nil, nil, Unreachable) }), `{"executionMode":"wasi"}`), engine.Trapped, "_start: unreachable"},
		{"a silent command", withSection(with(func(m *Module) { m.Memory(1, 0); m.Func("_start", nil, nil, nil) }), `{"executionMode":"wasi"}`), engine.BadReply, `does not say "valid"`},
	} {
		p, err := try(t, tc.wasm, kubewarden.Config{})
		if engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
			t.Errorf("%s: %v, want %s: %s", tc.name, err, tc.reason, tc.detail)
		}
		if err == nil {
			p.Close()
		}
	}
}

// TestUnstable: modules of the time before WASI's first preview run too.
func TestUnstable(t *testing.T) {
	m := &Module{}
	m.Import("wapc", "__guest_request", []byte{I32, I32}, nil)
	answer := m.Import("wapc", "__guest_response", []byte{I32, I32}, nil)
	write := m.Import("wasi_unstable", "fd_write", []byte{I32, I32, I32, I32}, []byte{I32})
	m.Memory(1, 0)
	m.Data(0, []byte(`"v1"{"valid":true}`))
	m.Data(64, []byte{72, 0, 0, 0, 5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'})
	m.Data(200, []byte(accepted))
	m.Func("__guest_call", []byte{I32, I32}, []byte{I32}, nil,
		Get(0), Const32(16), Op(0x46), If(Const32(0), Const32(4), Call(answer), Const32(1), Return),
		Get(0), Const32(17), Op(0x46), If(Const32(4), Const32(14), Call(answer), Const32(1), Return),
		Const32(1), Const32(64), Const32(1), Const32(100), Call(write), Drop,
		Const32(200), Const32(17), Call(answer), Const32(1))
	var said string
	p := start(t, m.Bytes(), kubewarden.Config{Log: func(_ engine.Level, b []byte) { said = string(b) }})
	if r, _, err := admit(p, abi.PhaseValidate, bare); err != nil || !r.Allowed || said != "hello" {
		t.Errorf("%+v, %v, said %q", r, err, said)
	}
}
