package rego

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// Where things stand in the memory of a fake.
const (
	resultAt = 1024
	namesAt  = 2048
	entryAt  = 3072
	textAt   = 4096
	freeAt   = 65536
)

// A fake is a module with OPA's exports and no policy, which can misbehave in
// each of them. Nil code does what is right; the values of a fake are the
// addresses of texts.
type fake struct {
	result, names      string
	eval, malloc, dump [][]byte // (7)->i32, (1)->i32, (1)->i32
	valueDump          [][]byte // (1)->i32
	parse              [][]byte // (2)->i32
	start              [][]byte
}

// The indexes of functions in a fake.
const (
	opaAbort = iota
	opaPrintln
	opaBuiltin
	opaMalloc
	jsonDump
	valueDump
)

func (f fake) bytes() []byte {
	m := &Module{}
	one := []byte{I32}
	m.Import("env", "opa_abort", one, nil)
	m.Import("env", "opa_println", one, nil)
	m.Import("env", "opa_builtin1", []byte{I32, I32, I32}, one)
	m.ImportMemory("env", "memory", 8)
	or := func(s, other string) []byte {
		if s == "" {
			s = other
		}
		return append([]byte(s), 0)
	}
	code := func(c [][]byte, other ...[]byte) [][]byte {
		if c == nil {
			return other
		}
		return c
	}
	m.Data(resultAt, or(f.result, `[{"result":true}]`))
	m.Data(namesAt, or(f.names, `{"hex.encode":7}`))
	m.Data(entryAt, or("", `{"p/allow":0}`))
	m.Data(textAt, or("", `"text"`))
	m.Func("opa_malloc", one, one, nil, code(f.malloc, Const32(freeAt))...)
	m.Func("opa_json_dump", one, one, nil, code(f.dump, Get(0))...)
	m.Func("opa_value_dump", one, one, nil, code(f.valueDump, Get(0))...)
	m.Func("opa_value_parse", []byte{I32, I32}, one, nil, code(f.parse, Get(0))...)
	m.Func("opa_json_parse", []byte{I32, I32}, one, nil, code(f.parse, Get(0))...)
	m.Func("builtins", nil, one, nil, Const32(namesAt))
	m.Func("entrypoints", nil, one, nil, Const32(entryAt))
	m.Func("opa_heap_ptr_get", nil, one, nil, Const32(freeAt))
	m.Func("opa_eval", []byte{I32, I32, I32, I32, I32, I32, I32}, one, nil, code(f.eval, Const32(resultAt))...)
	if f.start != nil {
		m.Start(m.Func("", nil, nil, nil, f.start...))
	}
	return m.Bytes()
}

// TestMisbehavior: a policy that misbehaves in one way each ends with the right
// reason, and does so again.
func TestMisbehavior(t *testing.T) {
	hex := [][]byte{Const32(7), Const32(0), Const32(textAt), Call(opaBuiltin)}
	with := func(code ...[]byte) [][]byte { return code }
	for _, tc := range []struct {
		name   string
		limits engine.Limits
		fake   fake
		reason engine.Reason
		detail string
	}{
		{"good", engine.Limits{}, fake{}, "", ""},
		{"asks the host", engine.Limits{}, fake{eval: append(hex, Drop, Const32(resultAt))}, "", ""},
		{"traps", engine.Limits{}, fake{eval: with(Unreachable)}, engine.Trapped, "opa_eval: unreachable"},
		{"loops", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, fake{eval: with(Loop(Br(0)), Unreachable)}, engine.DeadlineExceeded, "ran longer than 30ms"},
		{"burns", engine.Limits{Fuel: 1_000_000}, fake{eval: with(Loop(Br(0)), Unreachable)}, engine.FuelExhausted, "took more than 1000000 units"},
		{"recurses", engine.Limits{}, fake{eval: with(Get(0), Get(0), Get(0), Get(0), Get(0), Get(0), Get(0), Call(11))}, engine.StackOverflow, "nested more than"},
		{"grows", engine.Limits{Fuel: 1 << 50}, fake{eval: with(Loop(Const32(16), Grow, Const32(0), Op(0x4e), BrIf(0)), Unreachable)}, engine.OutOfMemory, "needed more than 32 MiB"},
		{"aborts", engine.Limits{}, fake{eval: with(Const32(textAt), Call(opaAbort), Const32(0))}, engine.Trapped, `aborted: "text"`},
		{"aborts with nothing", engine.Limits{}, fake{eval: with(Const32(-1), Call(opaAbort), Const32(0))}, engine.Trapped, `aborted: ?`},
		{"floods the log", engine.Limits{Fuel: 3_000_000}, fake{eval: with(Loop(Const32(textAt), Call(opaPrintln), Br(0)), Unreachable)}, engine.FuelExhausted, "took more than"},
		{"result outside", engine.Limits{}, fake{eval: with(Const32(-16))}, engine.BadReply, "outside the memory"},
		{"result without end", engine.Limits{}, fake{eval: with(Const32(freeAt), Const32(1), Const32(7<<16), Fill, Const32(freeAt))}, engine.BadReply, "outside the memory, or longer"},
		{"result of 10 MB", engine.Limits{}, fake{eval: with(Const32(200), Grow, Drop, Const32(freeAt), Const32(1), Const32(10<<20), Fill, Const32(freeAt))}, engine.BadReply, "longer than 4194304 bytes"},
		{"nonsense", engine.Limits{}, fake{result: "nonsense"}, engine.BadReply, "no result set"},
		{"undefined", engine.Limits{}, fake{result: "[]"}, engine.BadReply, "undefined for this request"},
		{"unknown builtin", engine.Limits{}, fake{eval: with(Const32(8), Const32(0), Const32(textAt), Call(opaBuiltin))}, engine.Trapped, "the built-in function 8, which it has not declared"},
		{"argument outside", engine.Limits{}, fake{eval: with(Const32(7), Const32(0), Const32(-1), Call(opaBuiltin))}, engine.Trapped, "an argument at 0xffffffff"},
		{"argument that is no value", engine.Limits{}, fake{eval: with(Const32(7), Const32(0), Const32(textAt+1), Call(opaBuiltin))}, engine.Trapped, "cannot be read"},
		{"asks within an answer", engine.Limits{}, fake{eval: hex, valueDump: hex}, engine.Trapped, "called the host from within opa_value_dump"},
		{"traps within an answer", engine.Limits{}, fake{eval: hex, valueDump: with(Unreachable)}, engine.Trapped, "opa_eval: unreachable"},
		{"loops within an answer", engine.Limits{Timeout: 30 * time.Millisecond, Fuel: 1 << 60}, fake{eval: hex, valueDump: with(Loop(Br(0)), Unreachable)}, engine.DeadlineExceeded, "ran longer"},
		{"asks for ever", engine.Limits{}, fake{eval: with(Loop(append(hex, Drop, Br(0))...), Unreachable)}, engine.FuelExhausted, "took more than"},
		{"no memory", engine.Limits{}, fake{malloc: with(Get(0), Const32(100), Op(0x4f), If(Const32(0), Return), Const32(freeAt))}, engine.OutOfMemory, "opa_malloc gave no memory"},
		{"memory outside", engine.Limits{}, fake{malloc: with(Get(0), Const32(100), Op(0x4f), If(Const32(-4), Return), Const32(freeAt))}, engine.BadReply, "do not fit into memory"},
		{"no memory for an answer", engine.Limits{}, fake{eval: hex, malloc: with(Get(0), Const32(10), Op(0x46), If(Const32(0), Return), Const32(freeAt))}, engine.OutOfMemory, "opa_malloc gave no memory for 10 bytes"},
		{"memory for an answer outside", engine.Limits{}, fake{eval: hex, malloc: with(Get(0), Const32(10), Op(0x46), If(Const32(-4), Return), Const32(freeAt))}, engine.Trapped, "opa_malloc returned 0xfffffffc"},
		{"cannot read the answer", engine.Limits{}, fake{eval: hex, parse: with(Get(1), Const32(10), Op(0x46), If(Const32(0), Return), Get(0))}, engine.Trapped, "cannot read a result of 10 bytes"},
	} {
		if tc.limits.Timeout == 0 {
			tc.limits.Timeout = time.Minute
		}
		logged := 0
		p := start(t, tc.fake.bytes(), Config{Limits: tc.limits, Log: func(_ engine.Level, b []byte) { logged += len(b) }})
		for range 3 {
			r, _, err := admit(p, abi.PhaseValidate, pod)
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

// TestStartMisbehavior: and so does one that misbehaves when it is started.
func TestStartMisbehavior(t *testing.T) {
	for _, tc := range []struct {
		name   string
		wasm   []byte
		reason engine.Reason
		detail string
	}{
		{"names outside", fake{dump: [][]byte{Const32(-2)}}.bytes(), engine.BadReply, "outside the memory"},
		{"names that are none", fake{names: `[1]`}.bytes(), engine.BadReply, "builtins: not a table of names"},
		{"large ids", fake{names: `{"hex.encode":99999999999}`}.bytes(), engine.BadReply, "not a table of names"},
		{"settings unread", fake{parse: [][]byte{Const32(0)}}.bytes(), engine.BadReply, "opa_json_parse cannot read"},
		{"asks in the start function", fake{start: [][]byte{Const32(7), Const32(0), Const32(textAt), Call(opaBuiltin), Drop}}.bytes(), engine.Trapped, "has not declared"},
		{"loops in the start function", fake{start: [][]byte{Loop(Br(0))}}.bytes(), engine.FuelExhausted, "took more than"},
		{"no eval", []byte(strings.ReplaceAll(string(fake{}.bytes()), "\bopa_eval", "\bopb_eval")), engine.BadReply, "neither opa_eval nor eval"},
		{"another ABI", Fixed(""), engine.BadReply, `ABI is "proa/v1"`},
	} {
		p, err := try(t, tc.wasm, Config{Limits: engine.Limits{Fuel: 1_000_000}})
		if engine.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.detail) {
			t.Errorf("%s: %v, want %s: %s", tc.name, err, tc.reason, tc.detail)
		}
		if err == nil {
			p.Close()
		}
	}
}

// TestExpensive: a policy cannot make the host work more than it pays for, or
// keep what it computes.
func TestExpensive(t *testing.T) {
	const head = "package p\n\nimport rego.v1\n\nlong := concat(\"\", [\"a\" | some _ in numbers.range(1, 1500)])\n\n"
	cases := []struct {
		expression string
		reason     engine.Reason
		detail     string
	}{
		{`count(sprintf("%[1]s%[1]s", [long]))`, "", ""},
		{`count(sprintf(concat("", ["%[1]s" | some _ in numbers.range(1, 1500)]), [long]))`, engine.OutOfMemory, "result would have more than"},
		{`count(sprintf("%999999999d", [1]))`, engine.BadReply, "undefined"},
		{`count(sprintf("%*d", [999999999, 1]))`, engine.BadReply, "undefined"},
		{`count(numbers.range_step(1, 100000000000, 1))`, engine.OutOfMemory, "result would have more than"},
		{`count(net.cidr_expand("::/0"))`, engine.OutOfMemory, "result would have more than"},
		{`count(regex.split("((a{30}){30}){1,30}", long))`, engine.BadReply, "undefined"},
		{`count([1 | some _ in numbers.range(1, 1000); regex.split("(a*)*b", long)])`, engine.FuelExhausted, "took more than"},
		{`count(regex.replace(concat("", [long, long]), "a", long))`, engine.OutOfMemory, "result would have more than"},
		{`yaml.unmarshal("a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]")`, engine.BadReply, "undefined"},
		{`json.patch({"a": long}, [{"op": "copy", "from": "/a", "path": sprintf("/%d", [n])} | some n in numbers.range(1, 2000)])`, engine.FuelExhausted, "took more than"},
		{`count(indexof_n(concat("", [long | some _ in numbers.range(1, 400)]), concat("", [long | some _ in numbers.range(1, 200)])))`, engine.FuelExhausted, "took more than"},
		{`[time.date([1, "Europe/Berlin"]) | some _ in numbers.range(1, 1000)]`, engine.FuelExhausted, "took more than"},
		{`count(json.marshal_with_options([[[[[[long]]]]]], {"indent": long}))`, engine.OutOfMemory, "result would have more than"},
	}
	policy := head
	for n, tc := range cases { // the request's name says which
		policy += fmt.Sprintf("main := {\"allowed\": x != null} if {\n\tinput.request.name == \"%d\"\n\tx := %s\n}\n\n", n, tc.expression)
	}
	p := start(t, compile(t, policy, "p/main"), Config{Limits: engine.Limits{Fuel: 10_000_000}})
	for n, tc := range cases {
		q := request(pod)
		q.Name = strconv.Itoa(n)
		begin := time.Now()
		r, _, err := p.Admit(context.Background(), engine.Call{}, abi.PhaseValidate, q)
		if engine.ReasonOf(err) != tc.reason || err != nil && !strings.Contains(err.Error(), tc.detail) || err == nil && !r.Allowed {
			t.Errorf("%s: %+v, %v, want %s: %s", tc.expression, r, err, tc.reason, tc.detail)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s took %v", tc.expression, took)
		}
	}
}
