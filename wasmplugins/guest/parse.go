package guest

import (
	"encoding/binary"
	"math/bits"
)

// A document is JSON with an index of its values, made in one pass: finding a
// member then costs a look at the members before it, not at their content.
//
// The index has an entry for each value, key and end of an object or array, in
// the order of the text. The low half of an entry is where its text begins. The
// high half is where it ends, but for an object or array it is the mark
// container and the place in the index behind its end.
type document struct {
	b     []byte
	index []uint64
}

const container = 1 << 31

// Words of eight equal bytes.
const (
	ones        = 0x0101010101010101
	highs       = 0x80 * ones
	quotes      = '"' * ones
	backslashes = '\\' * ones
)

// read indexes b, which it keeps. Broken JSON gives an index of what is whole.
//
// The Go compiler makes a jump through a table of every jump in WebAssembly,
// so this is one function that jumps little.
func (d *document) read(b []byte) {
	d.b = b
	index := d.index[:0]
	n := len(b)
	open := uint64(container - 1) // the innermost open object or array; none
	i := 0
scan:
	for i < n {
		c := b[i]
		if c == '"' {
			start := i
			i++
			for {
				if i+8 <= n {
					w := binary.LittleEndian.Uint64(b[i:])
					q, s := w^quotes, w^backslashes
					m := ((q - ones) &^ q & highs) | ((s - ones) &^ s & highs)
					if m == 0 {
						i += 8
						continue
					}
					i += bits.TrailingZeros64(m) >> 3
				} else if i >= n {
					break scan
				} else if b[i] != '"' && b[i] != '\\' {
					i++
					continue
				}
				if b[i] == '"' {
					break
				}
				i += 2
			}
			i++
			index = append(index, uint64(i)<<32|uint64(start))
			if i < n && (b[i] == ':' || b[i] == ',') {
				i++
			}
			continue
		}
		if c <= ',' { // spaces and commas; nothing else that is low begins a value
			i++
			continue
		}
		switch c | 0x20 {
		case '{': // and [
			index = append(index, open<<32|uint64(i))
			open = uint64(len(index) - 1)
			i++
		case '}': // and ]
			if open == container-1 {
				break scan
			}
			up := index[open] >> 32
			index = append(index, uint64(i+1)<<32|uint64(i))
			index[open] = index[open]&0xffffffff | uint64(container|len(index))<<32
			open = up
			i++
		case ':':
			i++
		default:
			start := i
			for i < n && (b[i] > ',' && b[i] != ']' && b[i] != '}' && b[i] != ':' || b[i] == '+') {
				i++
			}
			index = append(index, uint64(i)<<32|uint64(start))
		}
		if open == container-1 && len(index) > 0 {
			break // one value is all
		}
	}
	for open != container-1 {
		up := index[open] >> 32
		index = append(index, uint64(n)<<32|uint64(n))
		index[open] = index[open]&0xffffffff | uint64(container|len(index))<<32
		open = up
	}
	d.index = index
}

// root returns the value of the whole document.
func (d *document) root() Value {
	if len(d.index) == 0 {
		return Value{}
	}
	return Value{d, 0}
}

// begin and end return where an entry's text begins and ends.
func (d *document) begin(i uint32) uint32 { return uint32(d.index[i]) }

func (d *document) end(i uint32) uint32 {
	e := uint32(d.index[i] >> 32)
	if e&container != 0 {
		return uint32(d.index[e&^container-1] >> 32)
	}
	return e
}

// next returns the place in the index behind a value.
func (d *document) next(i uint32) uint32 {
	e := uint32(d.index[i] >> 32)
	if e&container != 0 {
		return e &^ container
	}
	return i + 1
}

// members returns the places of the first entry in an object or array and of
// its end.
func (d *document) members(i uint32) (first, end uint32) {
	e := uint32(d.index[i] >> 32)
	if e&container == 0 {
		return i, i
	}
	return i + 1, e&^container - 1
}
