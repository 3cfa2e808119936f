package wasmtest

import "encoding/binary"

// Where the guests of this file keep things in memory.
const (
	// ReplyAt is where Admission puts its reply, RequestAt where it lets the
	// host write requests.
	ReplyAt   = 1024
	RequestAt = 65536
)

// Admission adds the functions of a guest of the native ABI to m, which must
// have its imports already: a memory of 64 pages and the functions but for
// proa_admit. The reply stands at ReplyAt; Reply is the result that returns it.
func Admission(m *Module, reply string) {
	m.Memory(64, 0)
	m.Data(ReplyAt, []byte(reply))
	m.Func("proa_abi", nil, []byte{I32}, nil, Const32(0x00010000))
	m.Func("proa_alloc", []byte{I32}, []byte{I32}, nil, Const32(RequestAt))
}

// Reply is the i64 that returns n bytes at ptr.
func Reply(ptr, n uint32) []byte { return Const64(int64(uint64(ptr)<<32 | uint64(n))) }

// Fixed is a guest that gives the same reply to every request.
func Fixed(reply string) []byte {
	m := &Module{}
	Admission(m, reply)
	m.Func("proa_admit", []byte{I32, I32}, []byte{I64}, nil, Reply(ReplyAt, uint32(len(reply))))
	return m.Bytes()
}

// Search is a small guest, of the kind that a C compiler makes: it goes through
// the whole request and refuses it unless the eight bytes of needle are in it.
func Search(needle string) []byte {
	if len(needle) != 8 {
		panic("the needle must have eight bytes")
	}
	const deny = `{"allowed":false,"status":{"message":"not found"}}`
	m := &Module{}
	Admission(m, deny)
	load64 := Op(0x29, 0, 0)
	// Parameters: pointer, length; local 2: the end of the search.
	m.Func("proa_admit", []byte{I32, I32}, []byte{I64}, []byte{I32},
		Get(0), Get(1), Add32, Const32(8), Sub32, Set(2),
		Block(Loop(
			Get(0), Get(2), Op(0x4b), BrIf(1), // i32.gt_u
			Get(0), load64, Const64(int64(binary.LittleEndian.Uint64([]byte(needle)))), Op(0x51), // i64.eq
			If(Const64(0), Return),
			Get(0), Const32(1), Add32, Set(0), Br(0))),
		Reply(ReplyAt, uint32(len(deny))))
	return m.Bytes()
}
