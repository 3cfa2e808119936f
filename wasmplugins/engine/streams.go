package engine

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// streams are what a guest that is a command has of its caller.
type streams struct {
	args  []string
	in    []byte // not read yet; not ours until something is added
	limit int    // of what is kept
	kept  []byte
}

func (s *streams) begin(c Call) {
	s.args, s.limit = c.Args, c.Stdout
	s.in = slices.Clip(c.Stdin)
	if s.kept = s.kept[:0]; cap(s.kept) > 64<<10 {
		s.kept = nil
	}
}

// keep takes what the guest writes to its standard output, if that is wanted.
func (i *Instance) keep(l Level, b []byte) bool {
	s := &i.streams
	if l != Notice || s.limit == 0 {
		return false
	}
	if len(s.kept)+len(b) > s.limit {
		i.stop(BadReply, fmt.Sprintf("wrote more than %d bytes to its standard output", s.limit))
	}
	s.kept = append(s.kept, b...)
	return true
}

func argsSizesGet(i *Instance, s []uint64) uint32 {
	size := 0
	for _, a := range i.streams.args {
		size += len(a) + 1
	}
	return i.put32(s[0], uint32(len(i.streams.args))) | i.put32(s[1], uint32(size))
}

func argsGet(i *Instance, s []uint64) uint32 {
	at, text := uint32(s[0]), uint32(s[1])
	for _, a := range i.streams.args {
		if i.put32(uint64(at), text) != wasiOK || !i.Write(text, append([]byte(a), 0)) {
			return wasiFault
		}
		at, text = at+4, text+uint32(len(a))+1
	}
	return wasiOK
}

// fdRead reads the standard input. At its end it reads nothing.
func fdRead(i *Instance, s []uint64) uint32 {
	if uint32(s[0]) != 0 {
		return wasiBadF
	}
	count := uint32(s[2])
	if count > 1024 {
		return wasiInval
	}
	vecs, ok := i.Read(uint32(s[1]), count*8)
	if !ok {
		return wasiFault
	}
	read := uint32(0)
	for in := &i.streams.in; len(vecs) > 0 && len(*in) > 0; vecs = vecs[8:] {
		b, ok := i.Read(binary.LittleEndian.Uint32(vecs), binary.LittleEndian.Uint32(vecs[4:]))
		if !ok {
			return wasiFault
		}
		n := copy(b, *in)
		*in = (*in)[n:]
		i.Charge(10 + int64(n)>>6)
		read += uint32(n)
	}
	return i.put32(s[3], read)
}
