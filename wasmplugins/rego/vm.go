package rego

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// The exports, by their place in exports.
const (
	fnMalloc = iota
	fnJSONParse
	fnJSONDump
	fnBuiltins
	fnEntrypoints
	fnFree
	fnValueParse
	fnValueDump
	fnHeapGet
	fnHeapSet
	fnEval // all at once, since 1.2
	fnSlowEval
	fnContextNew
	fnSetInput
	fnSetData
	fnSetEntrypoint
	fnResult
)

// exports are the functions of the ABI. Those with a question mark came or went
// with a version.
func exports() []string {
	return []string{
		"opa_malloc", "opa_json_parse", "opa_json_dump", "builtins", "?entrypoints", "?opa_free", "?opa_value_parse", "?opa_value_dump", "?opa_heap_ptr_get", "?opa_heap_ptr_set",
		"?opa_eval", "?eval", "?opa_eval_ctx_new", "?opa_eval_ctx_set_input", "?opa_eval_ctx_set_data", "?opa_eval_ctx_set_entrypoint", "?opa_eval_ctx_get_result",
	}
}

// imports are the functions that OPA's host offers.
func (p *Plugin) imports() []engine.Import {
	i32 := api.ValueTypeI32
	text := func(i *engine.Instance, ptr uint64) []byte {
		const longest = 4096
		b, ok := i.CString(uint32(ptr), longest)
		if !ok {
			return []byte("?")
		}
		i.Charge(10 + int64(len(b))>>6)
		return b
	}
	out := []engine.Import{
		{Module: "env", Name: "opa_abort", Params: []api.ValueType{i32}, Call: func(i *engine.Instance, s []uint64) {
			i.Stop(engine.Trapped, "aborted: %s", text(i, s[0]))
		}},
		{Module: "env", Name: "opa_println", Params: []api.ValueType{i32}, Call: func(i *engine.Instance, s []uint64) {
			i.Print(engine.Notice, text(i, s[0]))
		}},
	}
	for n := range 5 {
		params := slices.Repeat([]api.ValueType{i32}, 2+n) // an id, a context, the arguments
		out = append(out, engine.Import{
			Module: "env", Name: fmt.Sprintf("opa_builtin%d", n), Params: params, Results: []api.ValueType{i32},
			Call: func(i *engine.Instance, s []uint64) { s[0] = uint64(p.call(i, int32(s[0]), s[2:2+n])) },
		})
	}
	return out
}

// warm brings an instance into the state in which every request finds it.
func (p *Plugin) warm(i *engine.Instance) error {
	if major, ok := i.Global("opa_wasm_abi_version"); ok && major != 1 {
		return i.Errorf(engine.BadReply, "the policy is for version %d of OPA's ABI, this is 1", major)
	}
	for _, fn := range []int{fnSlowEval, fnContextNew, fnSetInput, fnSetData, fnResult} {
		if !i.Has(fnEval) && !i.Has(fn) {
			return i.Errorf(engine.BadReply, "the module exports neither opa_eval nor %s", strings.TrimPrefix(exports()[fn], "?"))
		}
	}
	if !p.started {
		if err := p.learn(i); err != nil {
			return err
		}
	}
	if p.mode != abi.ModeOPA || len(p.kinds()) > 0 {
		return p.room(i) // without data, or they come with each request
	}
	data, err := parse(i, p.settings)
	if err != nil {
		return err
	}
	if p.started && data != p.data {
		return i.Errorf(engine.BadReply, "the policy's instances are not alike")
	}
	if !p.started {
		p.data = data
	}
	return p.room(i)
}

// room lets the memory grow before the snapshot, as far as usual requests need:
// an instance whose memory grows must be replaced.
func (p *Plugin) room(i *engine.Instance) error {
	const most = 1 << 20
	if !i.Has(fnHeapGet) || !i.Has(fnHeapSet) {
		return nil
	}
	heap, err := i.Call(fnHeapGet)
	if err != nil {
		return err
	}
	if _, err = i.Call(fnMalloc, uint64(min(p.memory/4, most))); err != nil {
		return err
	}
	_, err = i.Call(fnHeapSet, heap)
	return err
}

// learn asks the first instance what the policy needs, and what it is.
func (p *Plugin) learn(i *engine.Instance) error {
	names, err := table(i, fnBuiltins)
	if err != nil {
		return err
	}
	p.builtins = map[int32]builtin{}
	var missing []string
	for name, id := range names {
		b, ok := offered[name]
		if !ok {
			missing = append(missing, name)
		}
		p.builtins[id] = b
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return i.Errorf(engine.CapabilityDenied, "the policy uses built-in functions that are not offered: %s", strings.Join(missing, ", "))
	}
	if p.mode == abi.ModeOPA || p.mode == abi.ModeGatekeeper {
		return nil
	}
	p.mode = abi.ModeOPA
	if !i.Has(fnEntrypoints) {
		return nil
	}
	entrypoints, err := table(i, fnEntrypoints)
	if err != nil {
		return err
	}
	for name := range maps.Keys(entrypoints) {
		if entrypoints[name] == 0 && (name == "violation" || strings.HasSuffix(name, "/violation")) {
			p.mode = abi.ModeGatekeeper
		}
	}
	return nil
}

// table reads a map of names to ids.
func table(i *engine.Instance, export int) (map[string]int32, error) {
	v, err := i.Call(export)
	if err != nil {
		return nil, err
	}
	b, err := dump(i, uint32(v))
	if err != nil {
		return nil, err
	}
	m, err := parseTable(b)
	if err != nil {
		return nil, i.Errorf(engine.BadReply, "%s: %v", exports()[export], err)
	}
	return m, nil
}

func parseTable(b []byte) (map[string]int32, error) {
	var m map[string]int32
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("not a table of names: %w", err)
	}
	return m, nil
}

// dump returns a value as JSON, valid until the next call of the guest.
func dump(i *engine.Instance, value uint32) ([]byte, error) {
	at, err := i.Call(fnJSONDump, uint64(value))
	if err != nil {
		return nil, err
	}
	return text(i, uint32(at))
}

func text(i *engine.Instance, at uint32) ([]byte, error) {
	b, ok := i.CString(at, abi.MaxCarry)
	if !ok {
		return nil, i.Errorf(engine.BadReply, "the reply at %#x is outside the memory, or longer than %d bytes", at, abi.MaxCarry)
	}
	return b, nil
}

// write puts bytes into memory that it takes from the guest.
func write(i *engine.Instance, b []byte) (uint32, error) {
	at, err := i.Call(fnMalloc, uint64(len(b)))
	if err != nil {
		return 0, err
	}
	if uint32(at) == 0 {
		return 0, i.Errorf(engine.OutOfMemory, "opa_malloc gave no memory for %d bytes", len(b))
	}
	if !i.Write(uint32(at), b) {
		return 0, i.Errorf(engine.BadReply, "opa_malloc returned %#x, where %d bytes do not fit into memory", uint32(at), len(b))
	}
	return uint32(at), nil
}

// parse makes a value of JSON.
func parse(i *engine.Instance, b []byte) (uint32, error) {
	at, err := write(i, b)
	if err != nil {
		return 0, err
	}
	v, err := i.Call(fnJSONParse, uint64(at), uint64(len(b)))
	if err != nil {
		return 0, err
	}
	if uint32(v) == 0 {
		return 0, i.Errorf(engine.BadReply, "opa_json_parse cannot read %d bytes of JSON", len(b))
	}
	return uint32(v), nil
}

// eval evaluates entrypoint 0 and returns the result as JSON, valid until the
// next call of the guest.
func eval(i *engine.Instance, input []byte, data uint32) ([]byte, error) {
	if !i.Has(fnEval) || !i.Has(fnHeapGet) {
		return slowEval(i, input, data)
	}
	at, err := write(i, input)
	if err != nil {
		return nil, err
	}
	heap, err := i.Call(fnHeapGet)
	if err != nil {
		return nil, err
	}
	const asJSON = 0
	result, err := i.Call(fnEval, 0, 0, uint64(data), uint64(at), uint64(len(input)), uint64(uint32(heap)), asJSON)
	if err != nil {
		return nil, err
	}
	return text(i, uint32(result))
}

// slowEval is for modules of the time before opa_eval.
func slowEval(i *engine.Instance, input []byte, data uint32) ([]byte, error) {
	in, err := parse(i, input)
	if err != nil {
		return nil, err
	}
	c, err := i.Call(fnContextNew)
	if err != nil {
		return nil, err
	}
	set := func(export int, value uint32) {
		if err == nil && i.Has(export) {
			_, err = i.Call(export, uint64(uint32(c)), uint64(value))
		}
	}
	set(fnSetInput, in)
	if data != 0 {
		set(fnSetData, data)
	}
	set(fnSetEntrypoint, 0)
	if err != nil {
		return nil, err
	}
	if _, err = i.Call(fnSlowEval, uint64(uint32(c))); err != nil {
		return nil, err
	}
	result, err := i.Call(fnResult, uint64(uint32(c)))
	if err != nil {
		return nil, err
	}
	return dump(i, uint32(result))
}
