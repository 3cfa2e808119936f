package wasmtest

import "encoding/base64"

const evilObject = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"by":"evil"}}`

// verdict is what a Kubewarden policy of the behavior answers.
func (g *guest) verdict() string {
	switch g.b {
	case Denies:
		return `{"accepted":false,"message":"not today"}`
	case Mutates:
		return `{"accepted":true,"mutated_object":` + evilObject + `}`
	default:
		return `{"accepted":true}`
	}
}

// hostCall is a call over Kubewarden's function with eight parameters.
func (g *guest) hostCall(call uint32) []byte {
	var code []byte
	for _, s := range []string{"kubewarden", "kubernetes", "can_i", `{"spec":{"resourceAttributes":{"verb":"get"}}}`} {
		at, n := g.text(s)
		code = join(code, Const32(int32(at)), Const32(int32(n)))
	}
	return join(code, Call(call), Drop)
}

// BehavingWaPC is a policy of Kubewarden's waPC mode.
func BehavingWaPC(b Behavior) []byte {
	g := &guest{Module: &Module{}, b: b}
	two, one := []byte{I32, I32}, []byte{I32}
	g.Import("wapc", "__guest_request", two, nil)
	response := g.Import("wapc", "__guest_response", two, nil)
	console := g.Import("wapc", "__console_log", two, nil)
	call := g.Import("wapc", "__host_call", []byte{I32, I32, I32, I32, I32, I32, I32, I32}, one)
	g.Memory(64, 0)
	g.begin()
	say := func(at, n int32) []byte { return join(Const32(at), Const32(n), Call(response)) }
	saying := func(s string) []byte { at, n := g.text(s); return say(int32(at), int32(n)) }
	g.shout = join(Const32(0), Const32(1000), Call(console))
	g.lie = [2][]byte{say(-16, 100), say(textsAt, -1)}
	g.within = g.hostCall(call)
	bad := g.astray()
	if b == Nonsense {
		bad = join(megabytes(), say(0, nonsense), Const32(1), Return)
	}
	g.Func("__guest_call", two, one, nil,
		Get(0), Const32(int32(len("protocol_version"))), Op(0x46), If(saying(`"v1"`), Const32(1), Return),
		Get(0), Const32(int32(len("validate_settings"))), Op(0x46), If(saying(`{"valid":true}`), Const32(1), Return),
		bad, saying(g.verdict()), Const32(1))
	return g.Bytes()
}

// BehavingWASI is a policy of Kubewarden's mode wasi.
func BehavingWASI(b Behavior) []byte {
	g := &guest{Module: &Module{}, b: b}
	one := []byte{I32}
	write := g.Import("wasi_snapshot_preview1", "fd_write", []byte{I32, I32, I32, I32}, one)
	sizes := g.Import("wasi_snapshot_preview1", "args_sizes_get", []byte{I32, I32}, one)
	call := g.Import("host", "call", []byte{I32, I32, I32, I32, I32, I32, I32, I32}, one)
	g.Memory(64, 0)
	g.begin()
	const vector, written, counts = 64, 96, 128
	out := func(fd, at, n int32) []byte {
		return join(Const32(vector), Const32(at), Store32, Const32(vector+4), Const32(n), Store32,
			Const32(fd), Const32(vector), Const32(1), Const32(written), Call(write), Drop)
	}
	saying := func(s string) []byte { at, n := g.text(s); return out(1, int32(at), int32(n)) }
	g.shout = out(2, 0, 1000)
	g.lie = [2][]byte{join(out(1, -16, 100), Return), join(out(1, textsAt, -1), Return)}
	g.within = g.hostCall(call)
	bad := g.astray()
	if b == Nonsense {
		bad = join(megabytes(), out(1, 0, nonsense), Return)
	}
	g.Func("_start", nil, nil, nil,
		Const32(counts), Const32(counts+4), Call(sizes), Drop,
		Const32(counts+4), Load32, Const32(int32(len("policy.wasm.validate."))), Op(0x47), // ne
		If(saying(`{"valid":true}`), Return),
		bad, saying(g.verdict()))
	g.Custom("io.kubewarden.metadata", []byte(`{"executionMode":"wasi","mutating":true}`))
	return g.Bytes()
}

// BehavingOPA is what stands for a policy compiled by OPA: it has the exports,
// and its values are the addresses of texts.
func BehavingOPA(b Behavior) []byte { return opa(b, false) }

// BehavingGatekeeper is the same for Gatekeeper's policies, which cannot mutate.
func BehavingGatekeeper(b Behavior) []byte { return opa(b, true) }

func opa(b Behavior, gatekeeper bool) []byte {
	g := &guest{Module: &Module{}, b: b}
	one := []byte{I32}
	g.Import("env", "opa_abort", one, nil)
	tell := g.Import("env", "opa_println", one, nil)
	builtin := g.Import("env", "opa_builtin1", []byte{I32, I32, I32}, one)
	g.ImportMemory("env", "memory", 64)
	g.begin()
	zero := func(s string) int32 { at, _ := g.text(s + "\x00"); return int32(at) }
	result, text := zero(g.result(gatekeeper)), zero(`"text"`)
	names, entries := zero(`{"hex.encode":7}`), zero(`{"p/allow":0}`)
	long := make([]byte, 1000)
	for i := range long {
		long[i] = 'x'
	}
	g.shout = join(Const32(zero(string(long))), Call(tell))
	g.lie = [2][]byte{
		join(Const32(-16), Return),
		join(Const32(RequestAt), Const32(1), Const32(63<<16), Fill, Const32(RequestAt), Return), // to the end of the memory
	}
	hex := join(Const32(7), Const32(0), Const32(text), Call(builtin))
	g.within = join(hex, Drop)
	bad := g.astray()
	if b == Nonsense {
		bad = join(megabytes(), Const32(RequestAt), Const32('x'), Const32(nonsense), Fill, Const32(RequestAt), Return)
	}
	dump := Get(0)
	if b == Reenters {
		dump = hex // the host asks for the argument, and is called for that
	}
	g.Func("opa_malloc", one, one, nil, Const32(RequestAt))
	g.Func("opa_json_dump", one, one, nil, Get(0))
	g.Func("opa_value_dump", one, one, nil, dump)
	g.Func("opa_value_parse", []byte{I32, I32}, one, nil, Get(0))
	g.Func("opa_json_parse", []byte{I32, I32}, one, nil, Get(0))
	g.Func("builtins", nil, one, nil, Const32(names))
	g.Func("entrypoints", nil, one, nil, Const32(entries))
	g.Func("opa_heap_ptr_get", nil, one, nil, Const32(RequestAt))
	g.Func("opa_eval", []byte{I32, I32, I32, I32, I32, I32, I32}, one, nil, bad, Const32(result))
	mode := "opa"
	if gatekeeper {
		mode = "gatekeeper"
	}
	g.Custom("io.kubewarden.metadata", []byte(`{"executionMode":"`+mode+`","mutating":true}`))
	return g.Bytes()
}

// result is what a policy of the behavior evaluates to.
func (g *guest) result(gatekeeper bool) string {
	patch := base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/data","value":{"by":"evil"}}]`))
	switch {
	case gatekeeper && g.b == Denies:
		return `[{"result":[{"msg":"not today"}]}]`
	case gatekeeper:
		return `[{"result":[]}]`
	case g.b == Denies:
		return `[{"result":{"allowed":false,"status":{"message":"not today"}}}]`
	case g.b == Mutates:
		return `[{"result":{"allowed":true,"patchType":"JSONPatch","patch":"` + patch + `"}}]`
	}
	return `[{"result":true}]`
}
