package wasmtest

// Answering is a guest of the native ABI whose export gives the same reply to
// whatever it is asked.
func Answering(export, reply string) []byte {
	m := &Module{}
	Admission(m, reply)
	m.Func(export, []byte{I32, I32}, []byte{I64}, nil, Reply(ReplyAt, uint32(len(reply))))
	return m.Bytes()
}

// Trapping is a guest whose export traps.
func Trapping(export string) []byte {
	m := &Module{}
	Admission(m, "")
	m.Func(export, []byte{I32, I32}, []byte{I64}, nil, Unreachable)
	return m.Bytes()
}
