package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tetratelabs/wazero/api"
)

// HostModule is the import module of Proa's own functions:
//
//	log(level, ptr, len i32)
//	call(op_ptr, op_len, request_ptr, request_len i32) -> i32
//	read(ptr, cap i32) -> i32
//
// call asks for a capability. It answers with the length of the reply, or with
// -1-length of an error's text; read copies that out, up to cap bytes, and
// answers with how many it copied.
const HostModule = "proa"

// hostCalls is the state of the capabilities during one use.
type hostCalls struct {
	calls []string
	bytes int
	reply []byte
}

func proaImports() []Import {
	i32 := api.ValueTypeI32
	return []Import{
		{Module: HostModule, Name: "log", Params: []api.ValueType{i32, i32, i32}, Call: func(i *Instance, s []uint64) {
			b := i.argument(s[1], s[2])
			i.out.write(Level(min(uint32(s[0]), uint32(Err))), b)
			if len(b) > 0 && b[len(b)-1] != '\n' {
				i.out.write(Level(min(uint32(s[0]), uint32(Err))), []byte{'\n'})
			}
		}},
		{Module: HostModule, Name: "call", Params: []api.ValueType{i32, i32, i32, i32}, Results: []api.ValueType{i32}, Call: func(i *Instance, s []uint64) {
			s[0] = api.EncodeI32(i.capability(string(i.argument(s[0], min(uint64(uint32(s[1])), 256))), i.argument(s[2], s[3])))
		}},
		{Module: HostModule, Name: "read", Params: []api.ValueType{i32, i32}, Results: []api.ValueType{i32}, Call: func(i *Instance, s []uint64) {
			b := i.host.reply[:min(len(i.host.reply), int(uint32(s[1])))]
			i.Charge(int64(len(b)) >> 6)
			if !i.Write(uint32(s[0]), b) {
				i.stop(Trapped, "proa.read: address out of range")
			}
			s[0] = uint64(len(b))
		}},
	}
}

// argument reads a range that the guest named, and charges for it.
func (i *Instance) argument(ptr, n uint64) []byte {
	b, ok := i.Read(uint32(ptr), uint32(n))
	if !ok {
		i.stop(Trapped, fmt.Sprintf("handed over %d bytes at %#x, which is outside its memory", uint32(n), uint32(ptr)))
	}
	i.Charge(10 + int64(len(b))>>6)
	return b
}

func (i *Instance) capability(op string, request []byte) int32 {
	reply, err := i.ask(op, request)
	if err != nil {
		i.host.reply = []byte(err.Error())
		return -1 - int32(len(i.host.reply))
	}
	i.host.reply = reply
	return int32(len(reply))
}

// ask calls a capability. Its errors are for the guest.
func (i *Instance) ask(op string, request []byte) ([]byte, error) {
	l := i.p.c.Limits
	if i.p.c.Capability == nil {
		i.stop(CapabilityDenied, fmt.Sprintf("called %q, which is not granted", op))
	}
	if i.host.calls = append(i.host.calls, op); len(i.host.calls) > l.HostCalls {
		i.stop(CapabilityDenied, fmt.Sprintf("made more than %d host calls", l.HostCalls))
	}
	// The clock goes on: whoever answers has what is left of the guest's time.
	ctx, cancel := context.WithDeadline(i.meter.ctx, i.meter.deadline)
	defer cancel()
	reply, err := i.p.c.Capability(ctx, op, request)
	i.checkTime()
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == CapabilityDenied {
		i.stop(CapabilityDenied, e.Detail)
	}
	if err != nil {
		return nil, err
	}
	if i.host.bytes += len(reply); i.host.bytes > l.HostBytes {
		i.stop(CapabilityDenied, fmt.Sprintf("host calls answered with more than %d bytes", l.HostBytes))
	}
	return reply, nil
}

// randomness is the same for the same request and the same code.
type randomness struct {
	seed string
	r    *rand.ChaCha8
}

func (i *Instance) fillRandom(b []byte) {
	if i.random.r == nil {
		h := sha256.New()
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(i.p.code.Digest))))
		h.Write([]byte(i.p.code.Digest))
		h.Write([]byte(i.random.seed))
		i.random.r = rand.NewChaCha8([32]byte(h.Sum(nil)))
	}
	_, _ = i.random.r.Read(b) // never fails
}
