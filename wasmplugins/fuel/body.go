package fuel

// A body is a function's code on its way through the rewriter.
type body struct {
	m      *module
	locals uint64 // parameters and locals of the original

	// The locals that the rewriter adds, behind the original's.
	fuel  uint64 // i64
	size  uint64 // i32
	depth uint64 // i32
	// counted says that the function takes part in counting depth: it calls.
	counted bool
	blocks  int // a loop counts for ten

	out []byte
}

// rewriteBody meters one function. It goes over the code twice: to find the
// static cost of each header, then to write.
func (m *module) rewriteBody(code []byte, typeIndex uint32) []byte {
	sig := m.types[typeIndex]
	r := &reader{b: code}
	groups := r.u32()
	declared := uint64(0)
	at := r.i
	for range groups {
		declared += uint64(r.u32())
		checkValueType(r.byte())
	}
	if declared > uint64(m.o.MaxLocals) {
		unsupported("function has %d locals, the limit is %d", declared, m.o.MaxLocals)
	}
	if m.locals += int(declared); m.locals > 400*m.o.MaxLocals {
		unsupported("the functions have more than %d locals", 400*m.o.MaxLocals)
	}
	b := &body{m: m, locals: uint64(sig.params) + declared}
	b.fuel, b.size, b.depth = b.locals, b.locals+1, b.locals+2

	start := r.i
	costs := b.measure(r)
	end(r)
	if n := (b.locals + 3) * uint64(b.blocks); n > uint64(m.o.MaxValues) {
		unsupported("function has %d locals and %d blocks, the limit of their product is %d", b.locals, b.blocks, m.o.MaxValues)
	}

	b.out = make([]byte, 0, len(code)+len(code)/4+64)
	b.out = putUint(b.out, uint64(groups)+2)
	b.out = append(b.out, code[at:start]...)
	b.out = append(b.out, 1, typeI64, 2, typeI32)
	r.i = start
	b.write(r, costs, sig)
	return b.out
}

// measure returns the number of instructions behind each header (the function
// entry, then the loops in order), and checks the indexes on the way.
func (b *body) measure(r *reader) []int64 {
	m := b.m
	costs := []int64{1}
	owner := []int{0} // of each open block: the header that pays for it
	for len(owner) > 0 {
		op := r.byte()
		cur := owner[len(owner)-1]
		costs[cur]++
		switch op {
		case opBlock, opIf:
			b.blocks++
			m.checkBlockType(r.s33())
			owner = append(owner, cur)
		case opLoop:
			b.blocks += 10
			m.checkBlockType(r.s33())
			owner = append(owner, len(costs))
			costs = append(costs, 1)
		case opEnd:
			owner = owner[:len(owner)-1]
		case opCall:
			m.function(r.u32())
			b.counted = true
		case opCallIndirect:
			m.checkType(r.u32())
			r.u32()
			b.counted = true
		case opRefFunc:
			m.function(r.u32())
		case opLocalGet, opLocalSet, opLocalTee:
			if i := r.u32(); uint64(i) >= b.locals {
				malformed("local index %d out of range", i)
			}
		case opGlobalGet, opGlobalSet:
			m.checkGlobal(r.u32())
		case opTableSet:
			m.hidden = true
			r.u32()
		case opMisc:
			at := r.i
			switch r.u32() {
			case miscDataDrop, miscElemDrop, miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
				m.hidden = true
			}
			r.i = at
			skipMisc(r)
		default:
			skipImmediates(r, op)
		}
	}
	return costs
}

// write copies the code with the charges. In a counted function the code
// stands in a block of its own, so that all ways out pass the place that gives
// the depth back.
func (b *body) write(r *reader, costs []int64, sig signature) {
	b.charge(costs[0])
	if b.counted {
		b.enter(sig)
	}
	loops, nesting := 0, 0
	for {
		at := r.i
		op := r.byte()
		switch op {
		case opBlock, opIf:
			r.s33()
			nesting++
		case opLoop:
			r.s33()
			nesting++
			loops++
			b.copy(r, at)
			b.charge(costs[loops])
			continue
		case opEnd:
			if nesting == 0 {
				if b.counted {
					b.leave()
				}
				b.out = append(b.out, opEnd)
				return
			}
			nesting--
		case opReturn:
			if b.counted {
				b.out = op1(b.out, opBr, uint64(nesting))
				continue
			}
		case opCall, opRefFunc:
			b.out = op1(b.out, op, uint64(b.m.function(r.u32())))
			continue
		case opCallIndirect:
			r.u32()
			r.u32()
		case opLocalGet, opLocalSet, opLocalTee, opGlobalGet, opGlobalSet:
			r.u32()
		case opMemoryGrow:
			b.chargeSize(0, b.m.o.PageCost)
			skipImmediates(r, op)
		case opMisc:
			sub := r.u32()
			r.i = at + 1
			skipMisc(r)
			switch sub {
			case miscMemoryInit, miscMemoryCopy, miscMemoryFill, miscTableInit, miscTableCopy, miscTableFill, miscTableGrow:
				b.chargeSize(b.m.o.BulkShift, 1)
			}
		default:
			skipImmediates(r, op)
		}
		b.copy(r, at)
	}
}

func (b *body) copy(r *reader, from int) { b.out = append(b.out, r.b[from:r.i]...) }

// charge takes a header's cost.
func (b *body) charge(instructions int64) {
	b.out = op1(b.out, opGlobalGet, uint64(b.m.fuel))
	b.out = putInt(append(b.out, opI64Const), 1+instructions>>b.m.o.CostShift)
	b.out = append(b.out, opI64Sub)
	b.settle()
}

// chargeSize takes (n >> shift) * factor, with n the i32 on top of the stack,
// which stays there.
func (b *body) chargeSize(shift uint, factor int64) {
	b.out = op1(b.out, opLocalTee, b.size)
	b.out = op1(b.out, opGlobalGet, uint64(b.m.fuel))
	b.out = op1(b.out, opLocalGet, b.size)
	b.out = append(b.out, opI64ExtendU)
	if shift > 0 {
		b.out = putInt(append(b.out, opI64Const), int64(shift))
		b.out = append(b.out, opI64ShrU)
	}
	if factor > 1 {
		b.out = putInt(append(b.out, opI64Const), factor)
		b.out = append(b.out, opI64Mul)
	}
	b.out = append(b.out, opI64Sub)
	b.settle()
}

// settle stores the fuel on top of the stack and calls Refill if it is below
// zero.
func (b *body) settle() {
	b.out = op1(b.out, opLocalTee, b.fuel)
	b.out = op1(b.out, opGlobalSet, uint64(b.m.fuel))
	b.out = op1(b.out, opLocalGet, b.fuel)
	b.out = append(b.out, opI64Const, 0, opI64LtS, opIf, typeVoid)
	b.out = op1(b.out, opCall, uint64(b.m.refill))
	b.out = append(b.out, opEnd)
}

// enter takes one level of depth and opens the block around the code.
func (b *body) enter(sig signature) {
	b.out = op1(b.out, opGlobalGet, uint64(b.m.depth))
	b.out = append(b.out, opI32Const, 1, opI32Sub)
	b.out = op1(b.out, opLocalTee, b.depth)
	b.out = op1(b.out, opGlobalSet, uint64(b.m.depth))
	b.out = op1(b.out, opLocalGet, b.depth)
	b.out = append(b.out, opI32Const, 0, opI32LtS, opIf, typeVoid)
	b.out = op1(b.out, opCall, uint64(b.m.refill)+1)
	b.out = append(b.out, opEnd)
	b.out = append(b.out, opBlock)
	b.out = append(b.out, sig.block...)
}

// leave closes the block and gives the level back.
func (b *body) leave() {
	b.out = append(b.out, opEnd)
	b.out = op1(b.out, opLocalGet, b.depth)
	b.out = append(b.out, opI32Const, 1, opI32Add)
	b.out = op1(b.out, opGlobalSet, uint64(b.m.depth))
}
