//go:build wasm

package guest

import "unsafe"

//go:wasmexport proa_authorize
func proaAuthorize(p, n int32) int64 {
	reply = Authorize(at(p, n))
	return result(reply)
}

//go:wasmexport proa_authenticate
func proaAuthenticate(p, n int32) int64 {
	reply = Authenticate(at(p, n))
	return result(reply)
}

//go:wasmexport proa_convert
func proaConvert(p, n int32) int64 {
	reply = Convert(at(p, n))
	return result(reply)
}

//go:wasmexport proa_serve
func proaServe(p, n int32) int64 {
	reply = Serve(at(p, n))
	return result(reply)
}

//go:wasmexport proa_reconcile
func proaReconcile(p, n int32) int64 {
	reply = Reconcile(at(p, n))
	return result(reply)
}

//go:wasmimport proa call
func proaCall(op unsafe.Pointer, opLen int32, request unsafe.Pointer, requestLen int32) int32

//go:wasmimport proa read
func proaRead(p unsafe.Pointer, n int32) int32

// hostCall returns a reply, or the text of an error and false.
func hostCall(operation string, request []byte) ([]byte, bool) {
	n := proaCall(unsafe.Pointer(unsafe.StringData(operation)), int32(len(operation)), unsafe.Pointer(unsafe.SliceData(request)), int32(len(request)))
	size := n
	if n < 0 {
		size = -1 - n
	}
	b := make([]byte, size+1) // not empty, so that it has an address
	got := proaRead(unsafe.Pointer(unsafe.SliceData(b)), size)
	return b[:got], n >= 0
}
