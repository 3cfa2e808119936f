//go:build wasm

package guest

import "unsafe"

// region is what proa_alloc last gave away. The server writes into it; it is
// the guest's from the next call on.
var region []byte

//go:wasmexport proa_abi
func proaABI() int32 { return 0x00010000 }

//go:wasmexport proa_alloc
func proaAlloc(n int32) int32 {
	if n < 0 {
		return 0
	}
	if int(n) > len(region) {
		// Words, so that the region is aligned to 8 bytes.
		words := make([]uint64, (int(n)+4096)/8)
		region = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
	}
	return int32(uintptr(unsafe.Pointer(unsafe.SliceData(region))))
}

//go:wasmexport proa_configure
func proaConfigure(p, n int32) int64 {
	if err := Configure(at(p, n)); err != nil {
		reply = append(reply[:0], `{"valid":false,"message":`...)
		reply = append(quote(reply, err.Error()), '}')
		return result(reply)
	}
	return 0
}

//go:wasmexport proa_admit
func proaAdmit(p, n int32) int64 {
	reply = Admit(at(p, n))
	return result(reply)
}

// at returns what the server wrote into the region.
func at(p, n int32) []byte {
	if p != int32(uintptr(unsafe.Pointer(unsafe.SliceData(region)))) || int(n) > len(region) {
		panic("guest: the server used memory that it did not get from proa_alloc")
	}
	return region[:n]
}

func result(b []byte) int64 {
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))<<32 | int64(len(b))
}

//go:wasmimport proa log
func hostLog(level int32, p unsafe.Pointer, n int32)

func log(level int32, text string) {
	hostLog(level, unsafe.Pointer(unsafe.StringData(text)), int32(len(text)))
}
