package wasmtest

// Letters of the functions of scheduling: settings like {"f":1} have that
// function, and no other, show the guest's behavior.
const (
	LetterPreFilter  = 'p'
	LetterFilter     = 'f'
	LetterPostFilter = 'o'
	LetterPreScore   = 's'
	LetterScore      = 'c'
	LetterNormalize  = 'n' // of kube-scheduler-wasm-extension only
	LetterReserve    = 'r'
	LetterUnreserve  = 'u'
	LetterPermit     = 'm'
	LetterPreBind    = 'b'
	LetterBind       = 'i'
	LetterPostBind   = 't'
)

// The replies of a guest that behaves.
type replies struct{ good, denies, mutates string }

const refused = `{"allowed":false,"reason":"not today"}`

// BehavingNative is a guest of the native ABI for all extension points.
func BehavingNative(b Behavior) []byte {
	g := &guest{Module: &Module{}, b: b}
	log := g.Import("proa", "log", []byte{I32, I32, I32}, nil)
	call := g.Import("proa", "call", []byte{I32, I32, I32, I32}, []byte{I32})
	g.Memory(64, 0)
	g.begin()
	at, n := g.text("authz.can_i")
	ask := join(Const32(int32(at)), Const32(int32(n)), Const32(int32(at)), Const32(0), Call(call), Drop)
	say := func(at, n int32) []byte { return join(Const32(1), Const32(at), Const32(n), Call(log)) }
	g.shout = say(0, 1000)
	g.lie = [2][]byte{say(-16, 100), say(0, -1)}

	g.Func("proa_abi", nil, []byte{I32}, nil, Const32(0x00010000))
	g.Func("proa_alloc", []byte{I32}, []byte{I32}, nil, Const32(RequestAt))
	g.Func("proa_table", []byte{I32}, []byte{I32}, nil, Const32(tableAt))
	g.Func("proa_nodes", []byte{I32, I32, I32, I32}, []byte{I32}, nil, Const32(0))
	g.Func("proa_configure", []byte{I32, I32}, []byte{I64}, nil,
		Get(0), Op(0x2d, 0, 2), GlobalSet(g.which), Const64(0)) // load8_u

	g.within = ask
	g.entry("proa_admit", 0, replies{
		`{"allowed":true}`, `{"allowed":false,"status":{"message":"not today"}}`,
		`{"allowed":true,"patch":[{"op":"add","path":"/data","value":{"by":"evil"}}]}`,
	})
	g.entry("proa_authorize", 0, replies{good: `{"decision":"Allow","reason":"fine"}`, denies: `{"decision":"Deny","reason":"not today"}`})
	g.entry("proa_authenticate", 0, replies{good: `{"authenticated":true,"user":{"username":"carol"}}`, denies: `{"authenticated":false,"error":"not today"}`})
	thing := func(by string) string {
		return `{"objects":[{"apiVersion":"example.test/v2","kind":"Thing","metadata":{"name":"a"},"spec":{"by":"` + by + `"}}]}`
	}
	g.entry("proa_convert", 0, replies{thing("good"), `{"error":"not today"}`, thing("evil")})
	serve := func(by string) string { return `{"object":{"metadata":{"name":"a"},"spec":{"by":"` + by + `"}}}` }
	g.entry("proa_serve", 0, replies{serve("good"), `{"status":{"code":403,"message":"not today"}}`, serve("evil")})
	child := func(by string) string {
		return `{"objects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child"},"data":{"by":"` + by + `"}}]}`
	}
	g.within = join(Loop(ask, Br(0)), Unreachable) // nobody waits who could be called again
	g.entry("proa_reconcile", 0, replies{child("good"), `{"error":"not today"}`, child("evil")})
	g.nativeScheduler()
	return g.Bytes()
}

func (g *guest) nativeScheduler() {
	const reject = `{"reject":{"reasons":["not today"]}}`
	g.entry("proa_prepare", LetterPreFilter, replies{`{"reasons":[{"reason":"not today"}]}`, reject, `{"nodes":["b"]}`},
		g.chosen(LetterPostFilter, g.answer(reject), Return))
	g.entry("proa_postfilter", LetterPostFilter, replies{`{}`, `{"message":"not today"}`, `{"node":"a"}`})
	g.entry("proa_reserve", LetterReserve, replies{good: `{}`, denies: refused})
	g.entry("proa_permit", LetterPermit, replies{good: `{}`, denies: refused})
	g.entry("proa_prebind", LetterPreBind, replies{good: `{}`, denies: refused})
	g.entry("proa_bind", LetterBind, replies{`{}`, refused, `{"done":true}`})
	g.entry("proa_unreserve", LetterUnreserve, replies{good: `{}`})
	g.entry("proa_postbind", LetterPostBind, replies{good: `{}`})

	fill := func(size, value int32) []byte {
		return join(Get(0), Const32(value), Get(1), Const32(size), Op(0x6c), Fill)
	} // mul
	g.batch("proa_filter", LetterFilter, join(fill(1, 1), Const32(0)), join(fill(1, 0x77), Const32(0)))
	g.batch("proa_prescore", LetterPreScore, Const32(1), Const32(0x77))
	g.batch("proa_score", LetterScore, Const32(1), join(fill(4, 0x77), Const32(0)))
}

// answer is the i64 that returns a text.
func (g *guest) answer(s string) []byte {
	if s == "" {
		return Const64(0)
	}
	return Reply(g.text(s))
}

// entry adds a function that answers with a reply. With a letter it shows its
// behavior only if the settings say so. The code comes first.
func (g *guest) entry(name string, letter byte, r replies, first ...[]byte) {
	good := g.answer(r.good)
	var bad []byte
	switch {
	case g.b == Denies && r.denies != "":
		bad = join(g.answer(r.denies), Return)
	case g.b == Mutates && r.mutates != "":
		bad = join(g.mark(), g.answer(r.mutates), Return)
	case g.b == LiesPointer:
		bad = join(Reply(0xfffffff0, 100), Return)
	case g.b == LiesLength:
		bad = join(Reply(textsAt, 0x7fffffff), Return)
	case g.b == Nonsense:
		bad = join(megabytes(), Reply(0, nonsense), Return)
	default:
		bad = g.astray()
	}
	if letter != 0 {
		bad = g.chosen(letter, bad)
	}
	g.Func(name, []byte{I32, I32}, []byte{I64}, nil, append(first, bad, good)...)
}

// batch adds a function that answers about all nodes.
func (g *guest) batch(name string, letter byte, denies, nonsense []byte) {
	var bad []byte
	switch g.b {
	case Denies:
		bad = join(denies, Return)
	case Mutates: // the nodes, too
		bad = join(g.mark(), Const32(tableAt), Const32(7), Const32(3*128), Fill)
	case Nonsense:
		bad = join(nonsense, Return)
	default:
		bad = g.astray()
	}
	g.Func(name, []byte{I32, I32}, []byte{I32}, nil, g.chosen(letter, bad), Const32(0))
}
