package wasmtest

// The codes of kube-scheduler-wasm-extension's status.
const (
	statusUnschedulable = 2
	statusSkip          = 5
)

// BehavingScheduler is a guest of kube-scheduler-wasm-extension with all of its
// functions.
func BehavingScheduler(b Behavior) []byte {
	g := &guest{Module: &Module{}, b: b}
	two, one := []byte{I32, I32}, []byte{I32}
	const host = "k8s.io/scheduler"
	config := g.Import(host, "get_config", two, one)
	pod := g.Import(host, "currentPod", two, one)
	reason := g.Import(host, "result.status_reason", two, nil)
	names := g.Import(host, "result.node_names", two, nil)
	nominate := g.Import(host, "result.nominated_node_name", two, nil)
	scores := g.Import(host, "result.normalized_score_list", two, nil)
	log := g.Import("k8s.io/klog", "log", []byte{I32, I32, I32}, nil)
	g.Memory(64, 0)
	g.begin()
	give := func(f uint32, at, n int32) []byte { return join(Const32(at), Const32(n), Call(f)) }
	giving := func(f uint32, s string) []byte { at, n := g.text(s); return give(f, int32(at), int32(n)) }
	g.shout = join(Const32(0), Const32(0), Const32(1000), Call(log))
	g.lie = [2][]byte{give(reason, -16, 100), give(reason, 0, -1)}
	g.within = join(Loop(Const32(0), Const32(0), Call(pod), Drop, Br(0)), Unreachable)
	const settings = 64
	g.Func("_start", nil, nil, nil,
		Const32(settings), Const32(64), Call(config), Drop, Const32(settings), Op(0x2d, 0, 2), GlobalSet(g.which))

	why := giving(reason, "not today")
	babble := join(megabytes(), give(reason, 0, nonsense))
	unfit := Const32(statusUnschedulable)
	none := g.chosen(LetterPostFilter, why, unfit, Return)
	fn := func(name string, letter byte, result byte, f function) { g.function(name, letter, result, f, babble) }
	fn("prefilter", LetterPreFilter, I32, function{denies: join(why, unfit), mutates: giving(names, "b\x00")})
	fn("filter", LetterFilter, I32, function{first: none, denies: join(why, unfit)})
	fn("postfilter", LetterPostFilter, I64, function{denies: Const64(statusUnschedulable), mutates: giving(nominate, "a")})
	fn("prescore", LetterPreScore, I32, function{denies: Const32(statusSkip)})
	fn("score", LetterScore, I64, function{denies: join(why, Const64(statusUnschedulable))})
	fn("normalizescore", LetterNormalize, I32, function{denies: join(why, unfit), nonsense: join(megabytes(), give(scores, 0, nonsense), Const32(0))})
	fn("reserve", LetterReserve, I32, function{denies: join(why, unfit)})
	fn("permit", LetterPermit, I64, function{denies: join(why, Const64(statusUnschedulable<<32)), nonsense: join(babble, Const64(0x77<<32))})
	fn("prebind", LetterPreBind, I32, function{denies: join(why, unfit)})
	fn("bind", LetterBind, I32, function{denies: join(why, unfit)})
	fn("unreserve", LetterUnreserve, 0, function{})
	fn("postbind", LetterPostBind, 0, function{})
	return g.Bytes()
}

// A function is what is special about one.
type function struct {
	first            []byte
	denies, nonsense []byte // up to the result
	mutates          []byte // comes before the good result
}

func (g *guest) function(name string, letter, result byte, f function, babble []byte) {
	results, good, wrong := []byte{result}, Const32(0), Const32(0x77)
	switch result {
	case I64:
		good, wrong = Const64(0), Const64(0x77)
	case 0:
		results, good, wrong = nil, nil, nil
	}
	var bad []byte
	switch {
	case g.b == Denies && f.denies != nil:
		bad = join(f.denies, Return)
	case g.b == Mutates:
		bad = join(g.mark(), f.mutates)
	case g.b == Nonsense && f.nonsense != nil:
		bad = join(f.nonsense, Return)
	case g.b == Nonsense:
		bad = join(babble, wrong, Return)
	default:
		bad = g.astray()
	}
	g.Func(name, nil, results, nil, f.first, g.chosen(letter, bad), good)
}
