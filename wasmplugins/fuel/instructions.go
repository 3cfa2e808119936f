package fuel

// The opcodes that the rewriter treats specially or writes.
const (
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opEnd          = 0x0b
	opBr           = 0x0c
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableSet     = 0x26
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opI32LtS       = 0x48
	opI64LtS       = 0x53
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI64Sub       = 0x7d
	opI64Mul       = 0x7e
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd

	typeI32   = 0x7f
	typeI64   = 0x7e
	typeVoid  = 0x40
	typeFunc  = 0x60
	typeV128  = 0x7b
	typeFref  = 0x70
	typeExref = 0x6f
)

// The operations after opMisc.
const (
	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17
)

// skipImmediates reads over the immediates of op, which has been read. It
// knows the instructions of WebAssembly 2.0 that hold no function, type, local
// or global index; body handles those.
func skipImmediates(r *reader, op byte) {
	switch {
	case op <= 0x01, op == 0x05, op == opEnd, op == opReturn, op == 0x1a, op == 0x1b:
	case op == opBr, op == 0x0d:
		r.u32()
	case op == 0x0e: // br_table
		for n := uint64(r.u32()) + 1; n > 0; n-- {
			r.u32()
		}
	case op == 0x1c: // select t*
		for _, t := range r.take(r.u32()) {
			checkValueType(t)
		}
	case op == 0x25, op == opTableSet:
		r.u32()
	case op >= 0x28 && op <= 0x3e:
		skipMemarg(r)
	case op == 0x3f, op == opMemoryGrow:
		r.byte()
	case op == opI32Const, op == opI64Const:
		r.skipInteger()
	case op == 0x43:
		r.take(4)
	case op == 0x44:
		r.take(8)
	case op >= 0x45 && op <= 0xc4:
	case op == 0xd0: // ref.null
		checkReference(r.byte())
	case op == 0xd1:
	case op == opMisc:
		skipMisc(r)
	case op == opVector:
		skipVector(r)
	default:
		unsupported("instruction %#x", op)
	}
}

func skipMemarg(r *reader) {
	if r.u32() >= 0x40 {
		unsupported("several memories")
	}
	r.u32()
}

func skipMisc(r *reader) {
	switch s := r.u32(); s {
	case 0, 1, 2, 3, 4, 5, 6, 7:
	case miscMemoryInit, miscMemoryCopy, miscTableInit, miscTableCopy:
		r.u32()
		r.u32()
	case miscDataDrop, miscMemoryFill, miscElemDrop, miscTableGrow, miscTableSize, miscTableFill:
		r.u32()
	default:
		unsupported("instruction %#x %d", opMisc, s)
	}
}

func skipVector(r *reader) {
	switch s := r.u32(); {
	case s <= 11, s == 92, s == 93:
		skipMemarg(r)
	case s == 12, s == 13:
		r.take(16)
	case s >= 21 && s <= 34:
		r.byte()
	case s >= 84 && s <= 91:
		skipMemarg(r)
		r.byte()
	case s > 255:
		unsupported("instruction %#x %d", opVector, s)
	}
}
