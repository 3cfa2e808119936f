// Command stateful is a guest of kube-scheduler-wasm-extension without its kit:
// it declares the host's functions itself. It remembers the pod from prefilter
// to postbind, as guests with a CycleState do.
package main

import (
	"bytes"
	"strconv"
	"strings"
	"unsafe"
)

func main() {}

//go:wasmimport k8s.io/api node
func hostNode(name unsafe.Pointer, n uint32, buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/api nodeList
func hostNodeList(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentPod
func hostPod(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentNodeName
func hostNodeName(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler filteredNodeList
func hostFiltered(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler nodeToStatusMap
func hostStatuses(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler nodeScoreList
func hostScores(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler nodeImageStates
func hostImages(name unsafe.Pointer, n uint32, buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler get_config
func hostConfig(buf unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler result.status_reason
func hostReason(p unsafe.Pointer, n uint32)

//go:wasmimport k8s.io/scheduler result.node_names
func hostNodeNames(p unsafe.Pointer, n uint32)

//go:wasmimport k8s.io/scheduler result.nominated_node_name
func hostNominate(p unsafe.Pointer, n uint32)

//go:wasmimport k8s.io/scheduler result.cluster_events
func hostEvents(p unsafe.Pointer, n uint32)

//go:wasmimport k8s.io/scheduler result.normalized_score_list
func hostNormalized(p unsafe.Pointer, n uint32)

//go:wasmimport k8s.io/scheduler handle.eventrecorder.eventf
func hostEventf(p unsafe.Pointer, n uint32)

//go:wasmimport k8s.io/scheduler handle.reject_waiting_pod
func hostReject(uid unsafe.Pointer, n uint32, buf unsafe.Pointer, limit uint32)

//go:wasmimport k8s.io/scheduler handle.get_waiting_pod
func hostWaiting(uid unsafe.Pointer, n uint32, buf unsafe.Pointer, limit uint32)

//go:wasmimport k8s.io/klog log
func hostLog(severity uint32, p unsafe.Pointer, n uint32)

//go:wasmimport k8s.io/klog logs
func hostLogs(severity uint32, p unsafe.Pointer, n uint32, kvs unsafe.Pointer, kn uint32)

//go:wasmimport k8s.io/klog severity
func hostSeverity() int32

var buffer [1 << 16]byte

func get(f func(unsafe.Pointer, uint32) uint32) string {
	n := f(unsafe.Pointer(&buffer), uint32(len(buffer)))
	if n > uint32(len(buffer)) {
		panic("too long: " + strconv.Itoa(int(n)))
	}
	return string(buffer[:n])
}

func getOf(f func(unsafe.Pointer, uint32, unsafe.Pointer, uint32) uint32, name string) string {
	return get(func(p unsafe.Pointer, n uint32) uint32 {
		return f(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), p, n)
	})
}

func give(f func(unsafe.Pointer, uint32), s string) {
	f(unsafe.Pointer(unsafe.StringData(s)), uint32(len(s)))
}

func say(s string) {
	if hostSeverity() == 0 {
		give(func(p unsafe.Pointer, n uint32) { hostLog(0, p, n) }, s)
	}
}

var (
	config = get(hostConfig) // before any call, as guests do
	pod    string
)

func has(word string) bool { return strings.Contains(pod, word) }

//go:wasmexport enqueue
func enqueue() {
	// Node: add; Pod: delete.
	give(hostEvents, string([]byte{1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}))
}

//go:wasmexport prefilter
func prefilter() int32 {
	pod = get(hostPod)
	switch {
	case has("do-reject"):
		give(hostReason, "rejected, config is "+config)
		return 2
	case has("do-fail"):
		give(hostReason, "cannot")
		return 1
	case has("do-restrict"):
		give(hostNodeNames, "b\x00nowhere\x00")
	case has("do-skip"):
		return 5
	}
	return 0
}

//go:wasmexport filter
func filter() int32 {
	name := get(hostNodeName)
	node := getOf(hostNode, name)
	if !strings.Contains(node, name) {
		panic("the node is not there")
	}
	if strings.Contains(node, "keep-away") {
		give(hostReason, "node is kept away")
		return 3
	}
	if has("do-panic") {
		panic("at filter")
	}
	return 0
}

//go:wasmexport postfilter
func postfilter() int64 {
	s := get(hostStatuses)
	if has("do-nominate") && strings.Contains(s, `"b":3`) {
		give(hostNominate, "b")
		return 1 << 32
	}
	return 2
}

//go:wasmexport prescore
func prescore() int32 {
	if has("do-list") {
		say(get(hostFiltered))
		say(strconv.Itoa(bytes.Count([]byte(get(hostNodeList)), []byte("keep-away"))))
		say(getOf(hostImages, "a"))
		give(func(p unsafe.Pointer, n uint32) {
			hostLogs(1, p, n, unsafe.Pointer(unsafe.StringData("k\x00v\x00")), 4)
		}, "pairs")
		give(hostEventf, `{"RegardingReference":{"Kind":"Pod","Name":"p"},"Eventtype":"Normal","Reason":"Seen","Action":"Look","Note":"note"}`)
	}
	if has("do-noscore") {
		return 5
	}
	return 0
}

//go:wasmexport score
func score() int64 {
	n := int64(1)
	if get(hostNodeName) == "c" {
		n = 3
	}
	return n << 32
}

//go:wasmexport normalizescore
func normalizescore() int32 {
	s := get(hostScores)
	give(hostNormalized, strings.NewReplacer(":1", ":10", ":3", ":30").Replace(s))
	return 0
}

func remember(point string) int32 {
	if !has("name-is-") {
		give(hostReason, point+": the pod is forgotten")
		return 1
	}
	say(point + " " + get(hostNodeName))
	if has("refuse-" + point) {
		give(hostReason, point+" refuses")
		return 2
	}
	return 0
}

//go:wasmexport reserve
func reserve() int32 { return remember("reserve") }

//go:wasmexport unreserve
func unreserve() { remember("unreserve") }

//go:wasmexport permit
func permit() int64 {
	if has("do-wait") {
		return 4<<32 | 60_000
	}
	if i := strings.Index(pod, "reject-uid-"); i >= 0 {
		uid := pod[i+7 : i+13]
		var out [1 << 12]byte
		give(func(p unsafe.Pointer, n uint32) { hostWaiting(p, n, unsafe.Pointer(&out), uint32(len(out))) }, uid)
		if bytes.Contains(out[:], []byte(uid)) {
			say("waits: " + uid)
		}
		give(func(p unsafe.Pointer, n uint32) { hostReject(p, n, unsafe.Pointer(&out), 8) }, uid)
		say("rejected: " + strconv.Itoa(int(out[0])))
	}
	return int64(remember("permit")) << 32
}

//go:wasmexport prebind
func prebind() int32 { return remember("prebind") }

//go:wasmexport bind
func bind() int32 {
	if has("do-bind") {
		return remember("bind")
	}
	return 5
}

//go:wasmexport postbind
func postbind() { remember("postbind") }
