package wasmtest

// A Behavior is how a guest behaves: as it should, or in just one way not.
type Behavior string

// The behaviors.
const (
	Good        Behavior = "good"
	Denies      Behavior = "denies"
	Mutates     Behavior = "mutates" // what it may, or else its own memory
	Traps       Behavior = "traps"
	Loops       Behavior = "loops"
	Recurses    Behavior = "recurses"
	Grows       Behavior = "grows"
	Floods      Behavior = "floods" // the log, then it is good
	LiesPointer Behavior = "lies-pointer"
	LiesLength  Behavior = "lies-length"
	Reenters    Behavior = "re-enters"
	Nonsense    Behavior = "10mb-nonsense"
)

// Behaviors are all of them.
func Behaviors() []Behavior {
	return []Behavior{Good, Denies, Mutates, Traps, Loops, Recurses, Grows, Floods, LiesPointer, LiesLength, Reenters, Nonsense}
}

// Where guests with a behavior keep things in memory.
const (
	textsAt = 1024    // replies, one after the other
	tableAt = 1 << 20 // of the native ABI's scheduler points
)

// patience is how often a guest that Mutates its own memory bears to be called
// in a memory that it has mutated. A scheduling cycle calls some for each node.
const patience = 20

// A guest is being made.
type guest struct {
	*Module
	b      Behavior
	next   uint32 // where the next text goes
	count  uint32 // a global for loops and for Mutates
	which  uint32 // a global with the first letter of the settings
	deep   uint32 // a function (i32) -> i32 that calls itself
	within []byte // calls of the host, for Reenters
	shout  []byte // one call that logs 1000 bytes
	lie    [2][]byte
}

// begin adds what all have, after the imports.
func (g *guest) begin() {
	g.next = textsAt
	g.count, g.which = g.Global(I32, 0), g.Global(I32, 0)
	self := g.nImport + uint32(len(g.funcs))
	g.deep = g.Func("", []byte{I32}, []byte{I32}, nil, Get(0), Call(self))
}

// text puts a text into memory.
func (g *guest) text(s string) (at, n uint32) {
	at, n = g.next, uint32(len(s))
	g.Data(at, []byte(s))
	g.next += (n + 8) &^ 7
	return at, n
}

// join is a sequence of code as one.
func join(code ...[]byte) []byte {
	var out []byte
	for _, c := range code {
		out = append(out, c...)
	}
	return out
}

// times repeats code that leaves nothing.
func (g *guest) times(n int32, code []byte) []byte {
	return join(Const32(n), GlobalSet(g.count),
		Loop(code, GlobalGet(g.count), Const32(1), Sub32, GlobalSet(g.count), GlobalGet(g.count), BrIf(0)))
}

// mark mutates the guest's own memory, and traps if that was never undone.
func (g *guest) mark() []byte {
	return join(GlobalGet(g.count), Const32(1), Add32, GlobalSet(g.count),
		GlobalGet(g.count), Const32(patience), Op(0x4b), If(Unreachable), // gt_u
		Const32(8), Const32(8), Load32, Const32(1), Add32, Store32,
		Const32(8), Load32, Const32(patience), Op(0x4b), If(Unreachable))
}

// astray is the code of the behaviors that are the same for every function; it
// does not come to its end, or leaves nothing and is followed by what is right.
func (g *guest) astray() []byte {
	switch g.b {
	case Mutates:
		return g.mark()
	case Traps:
		return Unreachable
	case Loops:
		return join(Loop(Br(0)), Unreachable)
	case Recurses:
		return join(Const32(0), Call(g.deep), Drop)
	case Grows:
		return join(Loop(Const32(16), Grow, Const32(0), Op(0x4e), BrIf(0)), Unreachable) // ge_s
	case Floods:
		return g.times(300, g.shout)
	case LiesPointer:
		return g.lie[0]
	case LiesLength:
		return g.lie[1]
	case Reenters:
		return g.within
	case Good, Denies, Nonsense:
	}
	return nil
}

// megabytes makes the memory large enough for 10 MB of nonsense.
func megabytes() []byte { return join(Const32(200), Grow, Drop) }

// nonsense is its size.
const nonsense = 10 << 20

// chosen is code for when the settings chose this function.
func (g *guest) chosen(letter byte, code ...[]byte) []byte {
	return join(GlobalGet(g.which), Const32(int32(letter)), Op(0x46), If(code...))
}
