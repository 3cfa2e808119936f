package kubewarden

import (
	"context"
	"encoding/json"
	"unicode/utf16"

	"github.com/tetratelabs/wazero/api"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// The operations of the protocol.
const (
	opValidate         = "validate"
	opValidateSettings = "validate_settings"
	opProtocolVersion  = "protocol_version"
	protocol           = "v1"
)

// The exports, by their place in ProgramConfig.Exports.
const (
	fnGuestCall = iota
	fnInit
)

// An exchange is one call over waPC.
type exchange struct {
	operation string
	payload   []byte
	answer    []byte // a copy
	failure   string
	answered  bool

	host        []byte // the last reply to the guest
	hostFailure string
}

func (p *Plugin) startWaPC(ctx context.Context, e *engine.Engine, code *engine.Code, pc engine.ProgramConfig) error {
	pc.Exports = []string{"__guest_call", "?wapc_init"}
	pc.Imports = append(p.waPCImports(), abortImport())
	pc.Warm = p.warm
	prog, err := e.Start(ctx, code, pc)
	if err != nil {
		return err
	}
	p.prog = prog
	p.invoke = func(ctx context.Context, c engine.Call, operation string, payload []byte, take func(i *engine.Instance, reply []byte) error) (engine.Usage, error) {
		return prog.Do(ctx, c, func(i *engine.Instance) error {
			b, err := guestCall(i, operation, payload)
			if err != nil {
				return err
			}
			return take(i, b)
		})
	}
	return nil
}

// warm brings an instance into the state in which every request finds it.
func (p *Plugin) warm(i *engine.Instance) error {
	if i.Has(fnInit) {
		if _, err := i.Call(fnInit); err != nil {
			return err
		}
	}
	b, err := guestCall(i, opProtocolVersion, nil)
	if err != nil {
		return err
	}
	var version string
	if json.Unmarshal(b, &version) != nil || version != protocol {
		return i.Errorf(engine.BadReply, "the policy's protocol version is %.100s, wanted is %q", b, protocol)
	}
	if b, err = guestCall(i, opValidateSettings, p.settings); err != nil {
		return err
	}
	return checkSettings(i, b)
}

// guestCall makes one call over waPC and returns the guest's answer.
func guestCall(i *engine.Instance, operation string, payload []byte) ([]byte, error) {
	x := &exchange{operation: operation, payload: payload}
	i.State = x
	ok, err := i.Call(fnGuestCall, uint64(len(operation)), uint64(len(payload)))
	i.State = nil
	switch {
	case err != nil:
		return nil, err
	case x.failure != "" || uint32(ok) == 0:
		if x.failure == "" {
			x.failure = "no reason given"
		}
		return nil, i.Errorf(engine.Trapped, "%s failed: %.500s", operation, x.failure)
	case !x.answered:
		return nil, i.Errorf(engine.BadReply, "%s gave no answer", operation)
	}
	return x.answer, nil
}

// state returns the call that is running. A guest that calls the host at
// another time is stopped.
func state(i *engine.Instance) *exchange {
	x, ok := i.State.(*exchange)
	if !ok {
		i.Stop(engine.Trapped, "called the host when it had not been asked anything")
	}
	return x
}

func (p *Plugin) waPCImports() []engine.Import {
	at := func(n int) []api.ValueType {
		t := make([]api.ValueType, n)
		for i := range t {
			t[i] = api.ValueTypeI32
		}
		return t
	}
	define := func(name string, params, results int, call func(i *engine.Instance, s []uint64)) engine.Import {
		return engine.Import{Module: "wapc", Name: name, Params: at(params), Results: at(results), Call: call}
	}
	return []engine.Import{
		define("__guest_request", 2, 0, func(i *engine.Instance, s []uint64) {
			x := state(i)
			put(i, s[0], []byte(x.operation))
			put(i, s[1], x.payload)
		}),
		define("__guest_response", 2, 0, func(i *engine.Instance, s []uint64) {
			x := state(i)
			x.answer, x.answered = answer(i, s), true
		}),
		define("__guest_error", 2, 0, func(i *engine.Instance, s []uint64) {
			state(i).failure = "error: " + string(answer(i, s))
		}),
		define("__console_log", 2, 0, func(i *engine.Instance, s []uint64) { i.Print(engine.Notice, i.Argument(s[0], s[1])) }),
		define("__host_call", 8, 1, func(i *engine.Instance, s []uint64) {
			x := state(i)
			x.host, x.hostFailure = nil, ""
			b, err := p.hostCall(i, s)
			s[0] = 1
			if err != nil {
				x.hostFailure, s[0] = err.Error(), 0
			}
			x.host = b
		}),
		define("__host_response_len", 0, 1, func(i *engine.Instance, s []uint64) { s[0] = uint64(len(state(i).host)) }),
		define("__host_response", 1, 0, func(i *engine.Instance, s []uint64) { put(i, s[0], state(i).host) }),
		define("__host_error_len", 0, 1, func(i *engine.Instance, s []uint64) { s[0] = uint64(len(state(i).hostFailure)) }),
		define("__host_error", 1, 0, func(i *engine.Instance, s []uint64) { put(i, s[0], []byte(state(i).hostFailure)) }),
	}
}

// put writes to where the guest wants it.
func put(i *engine.Instance, ptr uint64, b []byte) {
	i.Charge(10 + int64(len(b))>>6)
	if len(b) > 0 && !i.Write(uint32(ptr), b) {
		i.Stop(engine.Trapped, "wants %d bytes at %#x, which is outside its memory", len(b), uint32(ptr))
	}
}

// answer copies what the guest hands over.
func answer(i *engine.Instance, s []uint64) []byte {
	if n := uint32(s[1]); n > abi.MaxCarry {
		i.Stop(engine.BadReply, "the reply has %d bytes, the limit is %d", n, abi.MaxCarry)
	}
	return append([]byte(nil), i.Argument(s[0], s[1])...)
}

// abortImport is what AssemblyScript calls for a failed assertion, with two
// strings, a line and a column.
func abortImport() engine.Import {
	i32 := api.ValueTypeI32
	return engine.Import{Module: "env", Name: "abort", Params: []api.ValueType{i32, i32, i32, i32}, Call: func(i *engine.Instance, s []uint64) {
		i.Stop(engine.Trapped, "aborted: %s at %s:%d:%d", scriptString(i, uint32(s[0])), scriptString(i, uint32(s[1])), uint32(s[2]), uint32(s[3]))
	}}
}

// scriptString reads a string of AssemblyScript's: UTF-16, with its length in
// bytes in front.
func scriptString(i *engine.Instance, ptr uint32) string {
	const longest = 1024
	head, ok := i.Read(ptr-4, 4)
	if ptr < 4 || !ok {
		return "?"
	}
	n := min(uint32(head[0])|uint32(head[1])<<8|uint32(head[2])<<16|uint32(head[3])<<24, longest) &^ 1
	b, ok := i.Read(ptr, n)
	if !ok {
		return "?"
	}
	units := make([]uint16, 0, n/2)
	for ; len(b) > 0; b = b[2:] {
		units = append(units, uint16(b[0])|uint16(b[1])<<8)
	}
	return string(utf16.Decode(units))
}
