package fuel

import "unicode/utf8"

// A reader walks over bytes; it fails by panicking with a failure.
type reader struct {
	b []byte
	i int
}

func (r *reader) done() bool { return r.i >= len(r.b) }

func (r *reader) byte() byte {
	if r.i >= len(r.b) {
		malformed("unexpected end")
	}
	c := r.b[r.i]
	r.i++
	return c
}

func (r *reader) u32() uint32 {
	var v uint64
	for s := uint(0); s < 35; s += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << s
		if c < 0x80 {
			if v > 0xffffffff {
				malformed("integer too large")
			}
			return uint32(v)
		}
	}
	malformed("integer too long")
	return 0
}

// s33 reads a block type: a negative number is a value type, another a type
// index.
func (r *reader) s33() int64 {
	var v int64
	for s := uint(0); s < 35; s += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << s
		if c < 0x80 {
			if c&0x40 != 0 {
				v |= -1 << (s + 7)
			}
			return v
		}
	}
	malformed("integer too long")
	return 0
}

// skipInteger skips an integer of up to 64 bits.
func (r *reader) skipInteger() {
	for range 10 {
		if r.byte() < 0x80 {
			return
		}
	}
	malformed("integer too long")
}

func (r *reader) take(n uint32) []byte {
	if uint64(r.i)+uint64(n) > uint64(len(r.b)) {
		malformed("unexpected end")
	}
	b := r.b[r.i : r.i+int(n)]
	r.i += int(n)
	return b
}

func (r *reader) name() string { return string(r.take(r.u32())) }

// text is a name that must be UTF-8.
func (r *reader) text() string {
	s := r.name()
	if !utf8.ValidString(s) {
		malformed("a name is not UTF-8")
	}
	return s
}

func (r *reader) skipLimits() {
	f := r.byte()
	if f > 1 {
		unsupported("limits of form %#x", f)
	}
	r.u32()
	if f == 1 {
		r.u32()
	}
}

func putUint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func putInt(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func putName(b []byte, s string) []byte { return append(putUint(b, uint64(len(s))), s...) }

// op1 appends an instruction with one index or unsigned immediate.
func op1(b []byte, op byte, v uint64) []byte { return putUint(append(b, op), v) }
