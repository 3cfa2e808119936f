//go:build wasm

package guest

import "unsafe"

// room is what proa_table gave away, for good.
var room []uint64

//go:wasmexport proa_points
func proaPoints() int64 { return result(scheduling.points) }

//go:wasmexport proa_table
func proaTable(n int32) int32 {
	if n <= 0 {
		return 0
	}
	room = make([]uint64, (int(n)+7)/8)
	return int32(uintptr(unsafe.Pointer(unsafe.SliceData(room))))
}

// inRoom returns n bytes of what proa_table gave away.
func inRoom(p int32, n uintptr) unsafe.Pointer {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(room)))
	at := uintptr(uint32(p))
	if at < begin || n > uintptr(len(room))*8 || at-begin > uintptr(len(room))*8-n {
		panic("guest: the server used memory that it did not get from proa_table")
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(room)), at-begin)
}

//go:wasmexport proa_prepare
func proaPrepare(p, n int32) int64 {
	reply = Prepare(at(p, n))
	return result(reply)
}

//go:wasmexport proa_nodes
func proaNodes(p, stride, count, gen int32) int32 {
	if stride < 128 || count < 0 {
		return 1
	}
	scheduling.nodes = Nodes{inRoom(p, uintptr(stride)*uintptr(count)), uintptr(stride), int(count), uint32(gen)}
	return 0
}

//go:wasmexport proa_filter
func proaFilter(out, count int32) int32 {
	if scheduling.filter != nil {
		scheduling.filter(&scheduling.nodes, unsafe.Slice((*byte)(inRoom(out, uintptr(count))), int(count)))
	}
	return 0
}

//go:wasmexport proa_prescore
func proaPreScore(out, count int32) int32 {
	if scheduling.preScore != nil && scheduling.preScore(&scheduling.nodes, scores(out, count)) {
		return 1
	}
	return 0
}

//go:wasmexport proa_score
func proaScore(out, count int32) int32 {
	if scheduling.score != nil {
		scheduling.score(&scheduling.nodes, scores(out, count))
	}
	return 0
}

func scores(out, count int32) Scores {
	return unsafe.Slice((*int32)(inRoom(out, 4*uintptr(count))), int(count))
}

//go:wasmexport proa_postfilter
func proaPostFilter(p, n int32) int64 {
	reply = postFilter(at(p, n))
	return result(reply)
}

func place(point int, p, n int32) int64 {
	reply = placed(point, at(p, n))
	return result(reply)
}

//go:wasmexport proa_reserve
func proaReserve(p, n int32) int64 { return place(atReserve, p, n) }

//go:wasmexport proa_unreserve
func proaUnreserve(p, n int32) int64 { return place(atUnreserve, p, n) }

//go:wasmexport proa_permit
func proaPermit(p, n int32) int64 { return place(atPermit, p, n) }

//go:wasmexport proa_prebind
func proaPreBind(p, n int32) int64 { return place(atPreBind, p, n) }

//go:wasmexport proa_bind
func proaBind(p, n int32) int64 { return place(atBind, p, n) }

//go:wasmexport proa_postbind
func proaPostBind(p, n int32) int64 { return place(atPostBind, p, n) }
