package guest

import (
	"strconv"
	"unsafe"
)

// A PodRequest asks about a pod before any node. It is valid during the call.
type PodRequest struct {
	SchedulerName string
	Pod           Value
}

// A Plan is what becomes of a pod. The zero Plan goes on with all nodes.
type Plan struct {
	// Reject, if not empty, are the reasons why no node will do. Unresolvable
	// says that removing other pods would not help.
	Reject       []string
	Unresolvable bool
	// SkipFilter and SkipScore leave out the functions for this pod.
	SkipFilter, SkipScore bool
	// Nodes, if not nil, are the names of the only nodes that will do.
	Nodes []string
	// Reasons are those that the filter may give, by their index.
	Reasons []Reason
	// Normalize says how scores become 0 to 100.
	Normalize Normalization
}

// A Reason is why a node will not do.
type Reason struct {
	Text string
	// Unresolvable says that removing other pods would not help.
	Unresolvable bool
}

// A Normalization brings scores to 0 to 100.
type Normalization string

// The normalizations. Without one, scores must be in 0 to 100.
const (
	Scale   Normalization = "scale"   // the highest becomes 100
	Reverse Normalization = "reverse" // the highest becomes 0
)

func (p *Plan) encode(out []byte) []byte {
	out = append(out, `{"apiVersion":"proa/v1"`...)
	if len(p.Reject) > 0 {
		out = append(encode(append(out, `,"reject":{"reasons":`...), p.Reject), `,"unresolvable":`...)
		out = append(strconv.AppendBool(out, p.Unresolvable), '}')
	}
	switch {
	case p.SkipFilter && p.SkipScore:
		out = append(out, `,"skip":["filter","score"]`...)
	case p.SkipFilter:
		out = append(out, `,"skip":["filter"]`...)
	case p.SkipScore:
		out = append(out, `,"skip":["score"]`...)
	}
	if p.Nodes != nil {
		out = encode(append(out, `,"nodes":`...), p.Nodes)
	}
	for k, r := range p.Reasons {
		if k == 0 {
			out = append(out, `,"reasons":[`...)
		} else {
			out = append(out, ',')
		}
		out = quote(append(out, `{"reason":`...), r.Text)
		if r.Unresolvable {
			out = append(out, `,"unresolvable":true`...)
		}
		out = append(out, '}')
	}
	if len(p.Reasons) > 0 {
		out = append(out, ']')
	}
	if p.Normalize != "" {
		out = quote(append(out, `,"normalize":`...), string(p.Normalize))
	}
	return append(out, '}')
}

// Verdicts are one byte for each node: 0 where the filter is asked.
type Verdicts []byte

// Asked reports whether the node is still in the running.
func (v Verdicts) Asked(node int) bool { return v[node] == 0 }

// Veto says that the node will not do, for the reason with that index in the
// Plan.
func (v Verdicts) Veto(node, reason int) { v[node] = byte(reason + 1) }

// Scores are one number for each node: 0 where one is wanted, -1 elsewhere.
type Scores []int32

// Feasible reports whether the node has passed all filters.
func (s Scores) Feasible(node int) bool { return s[node] >= 0 }

// Nodes is the table of all nodes. It is read where it lies: nothing of it
// allocates. Texts that it hands out are valid during the call.
type Nodes struct {
	table  unsafe.Pointer
	stride uintptr
	count  int
	// Generation differs whenever anything in the table does.
	Generation uint32
}

// Len is the number of records, some of which may have no node.
func (t *Nodes) Len() int { return t.count }

// At returns the node with the number, which is below Len.
func (t *Nodes) At(i int) Node {
	if uint(i) >= uint(t.count) {
		panic("guest: there is no such node")
	}
	return Node{t.table, unsafe.Add(t.table, uintptr(i)*t.stride)}
}

// A Node is a record of the table.
type Node struct{ table, record unsafe.Pointer }

func (n Node) u32(at uintptr) uint32 { return *(*uint32)(unsafe.Add(n.record, at)) }
func (n Node) i64(at uintptr) int64  { return *(*int64)(unsafe.Add(n.record, at)) }

func (n Node) text(at uintptr) string { return text(n.table, unsafe.Add(n.record, at)) }

// text reads the place and length at p.
func text(table, p unsafe.Pointer) string {
	return unsafe.String((*byte)(unsafe.Add(table, uintptr(*(*uint32)(p)))), int(*(*uint32)(unsafe.Add(p, 4))))
}

const (
	flagPresent = 1 << iota
	flagReady
	flagUnschedulable
	flagHardTaint
	flagSoftTaint
	flagHostPorts
)

func (n Node) flag(f uint32) bool { return n.u32(12)&f != 0 }

// Present reports whether the record has a node.
func (n Node) Present() bool { return n.flag(flagPresent) }

// Ready reports whether the node says so.
func (n Node) Ready() bool { return n.flag(flagReady) }

// Unschedulable reports whether the node is cordoned.
func (n Node) Unschedulable() bool { return n.flag(flagUnschedulable) }

// Tainted reports whether the node has a taint NoSchedule or NoExecute.
func (n Node) Tainted() bool { return n.flag(flagHardTaint) }

// SoftTainted reports whether the node has a taint PreferNoSchedule.
func (n Node) SoftTainted() bool { return n.flag(flagSoftTaint) }

// HostPorts reports whether pods on the node use ports of it.
func (n Node) HostPorts() bool { return n.flag(flagHostPorts) }

// Name is the node's name.
func (n Node) Name() string { return n.text(0) }

// Zone is the number of the node's zone, 0 if it has none. Numbers are small,
// and equal for nodes of one zone.
func (n Node) Zone() int { return int(n.u32(8)) }

// ZoneName is the label of the zone.
func (n Node) ZoneName() string { return n.text(120) }

// An Amount is how much of something a node has for pods, and how much of that
// its pods ask for.
type Amount struct{ Allocatable, Requested int64 }

// Free is what is left.
func (a Amount) Free() int64 { return a.Allocatable - a.Requested }

func (n Node) amount(k uintptr) Amount { return Amount{n.i64(16 + 8*k), n.i64(48 + 8*k)} }

// CPU is in thousandths of a processor.
func (n Node) CPU() Amount { return n.amount(0) }

// Memory is in bytes.
func (n Node) Memory() Amount { return n.amount(1) }

// EphemeralStorage is in bytes.
func (n Node) EphemeralStorage() Amount { return n.amount(2) }

// Pods is the number of pods.
func (n Node) Pods() Amount { return n.amount(3) }

// Scalar returns the amount of an extended resource, such as "example.com/gpu".
func (n Node) Scalar(name string) (Amount, bool) {
	p := unsafe.Add(n.table, uintptr(n.u32(112)))
	for range n.u32(116) {
		if text(n.table, p) == name {
			return Amount{*(*int64)(unsafe.Add(p, 8)), *(*int64)(unsafe.Add(p, 16))}, true
		}
		p = unsafe.Add(p, 24)
	}
	return Amount{}, false
}

// A Key is the key of a label as the table has it. The zero Key is of none.
type Key uint32

// Key finds a label's key; look it up once, and not for each node.
func (t *Nodes) Key(name string) Key {
	var before uintptr // the list of the node before
	var size uint32
	for i := range t.count {
		n := t.At(i)
		at, count := uintptr(n.u32(88)), n.u32(92)
		for k := range count {
			p := unsafe.Add(t.table, at+16*uintptr(k))
			place := *(*uint32)(p)
			// Nodes tend to have the same labels in the same order.
			if k < size && *(*uint32)(unsafe.Add(t.table, before+16*uintptr(k))) == place {
				continue
			}
			if text(t.table, p) == name {
				return Key(place)
			}
		}
		before, size = at, count
	}
	return 0
}

// Label returns the value of a label, and false if the node does not have it.
func (n Node) Label(k Key) (string, bool) {
	p := unsafe.Add(n.table, uintptr(n.u32(88)))
	for range n.u32(92) {
		if *(*uint32)(p) == uint32(k) && k != 0 {
			return text(n.table, unsafe.Add(p, 8)), true
		}
		p = unsafe.Add(p, 16)
	}
	return "", false
}

// Labels calls f for each label in the order of the keys, until it returns
// false.
func (n Node) Labels(f func(key, value string) bool) {
	p := unsafe.Add(n.table, uintptr(n.u32(88)))
	for range n.u32(92) {
		if !f(text(n.table, p), text(n.table, unsafe.Add(p, 8))) {
			return
		}
		p = unsafe.Add(p, 16)
	}
}

// A Taint is a taint of a node.
type Taint struct {
	Key, Value string
	Effect     string // NoSchedule, PreferNoSchedule or NoExecute
}

// Taints calls f for each taint, until it returns false.
func (n Node) Taints(f func(Taint) bool) {
	p := unsafe.Add(n.table, uintptr(n.u32(80)))
	for range n.u32(84) {
		effect := ""
		switch *(*uint32)(unsafe.Add(p, 16)) {
		case 1:
			effect = "NoSchedule"
		case 2:
			effect = "PreferNoSchedule"
		case 3:
			effect = "NoExecute"
		}
		if !f(Taint{text(n.table, p), text(n.table, unsafe.Add(p, 8)), effect}) {
			return
		}
		p = unsafe.Add(p, 24)
	}
}

// A Placed is a pod that has a node but is not bound to it yet.
type Placed struct {
	SchedulerName string
	Node          string
	Pod           Value
}

// An Outcome is what becomes of a placed pod. Start from Pass, Refuse or Wait.
type Outcome struct {
	Allowed bool
	Reason  string // if not allowed
	// RetrySeconds, of OnPermit, is after what time to ask again, for as long
	// as TimeoutSeconds.
	RetrySeconds, TimeoutSeconds int
	// Done, of OnBind, says that the pod is bound by other means.
	Done bool
}

// Pass lets the pod go on.
func Pass() Outcome { return Outcome{Allowed: true} }

// Refuse gives the pod's place up; it is scheduled again later.
func Refuse(reason string) Outcome { return Outcome{Reason: reason} }

// Wait has a pod keep its place and asks OnPermit again, for as long as
// timeoutSeconds.
func Wait(reason string, retrySeconds, timeoutSeconds int) Outcome {
	return Outcome{Reason: reason, RetrySeconds: retrySeconds, TimeoutSeconds: timeoutSeconds}
}

func (o *Outcome) encode(out []byte) []byte {
	out = append(out, `{"allowed":`...)
	out = strconv.AppendBool(out, o.Allowed)
	out = quote(append(out, `,"reason":`...), o.Reason)
	out = strconv.AppendInt(append(out, `,"retrySeconds":`...), int64(o.RetrySeconds), 10)
	out = strconv.AppendInt(append(out, `,"timeoutSeconds":`...), int64(o.TimeoutSeconds), 10)
	out = strconv.AppendBool(append(out, `,"done":`...), o.Done)
	return append(out, '}')
}

// A Hopeless is a pod that no node is left for.
type Hopeless struct {
	SchedulerName string
	Pod           Value
	Message       string // what the user is told
	Plugins       Value  // an array: who vetoed nodes
	Resolvable    Value  // an array: nodes that might do if other pods were gone
}

// What the plugin has registered for scheduling.
var scheduling struct {
	prepare    func(*PodRequest) Plan
	filter     func(*Nodes, Verdicts)
	preScore   func(*Nodes, Scores) (skip bool)
	score      func(*Nodes, Scores)
	postFilter func(*Hopeless) (node, message string)
	placed     [6]func(*Placed) Outcome // by the constants below

	nodes  Nodes
	points []byte
}

const (
	atReserve = iota
	atUnreserve
	atPermit
	atPreBind
	atBind
	atPostBind
)

func register(point string) {
	if len(scheduling.points) > 0 {
		scheduling.points = append(scheduling.points, ',')
	}
	scheduling.points = append(scheduling.points, point...)
}

// OnPrepare registers the function that looks at a pod before any node. What it
// keeps in variables is there for the filter and the score of the same pod.
func OnPrepare(f func(*PodRequest) Plan) { scheduling.prepare = f; register("prefilter") }

// OnFilter registers the function that vetoes nodes, all in one call.
func OnFilter(f func(*Nodes, Verdicts)) { scheduling.filter = f; register("filter") }

// OnPreScore registers a function that sees which nodes have passed all
// filters, and may leave out the score.
func OnPreScore(f func(*Nodes, Scores) (skip bool)) { scheduling.preScore = f; register("prescore") }

// OnScore registers the function that scores the feasible nodes, in one call.
func OnScore(f func(*Nodes, Scores)) { scheduling.score = f; register("score") }

// OnPostFilter registers the function that is asked when no node is left. It
// may name a node that will become free, and add a sentence to the message.
func OnPostFilter(f func(*Hopeless) (node, message string)) {
	scheduling.postFilter = f
	register("postfilter")
}

// OnReserve registers the function that books what a pod needs on its node, and
// undo, which may be nil, that takes it back. Both keep nothing in variables.
func OnReserve(f func(*Placed) Outcome, undo func(*Placed)) {
	scheduling.placed[atReserve] = f
	if undo != nil {
		scheduling.placed[atUnreserve] = func(p *Placed) Outcome { undo(p); return Pass() }
	}
	register("reserve")
}

// OnPermit registers the function that has the last word before the binding.
func OnPermit(f func(*Placed) Outcome) { scheduling.placed[atPermit] = f; register("permit") }

// OnPreBind registers the function that does what must be done before.
func OnPreBind(f func(*Placed) Outcome) { scheduling.placed[atPreBind] = f; register("prebind") }

// OnBind registers the function that binds pods by other means.
func OnBind(f func(*Placed) Outcome) { scheduling.placed[atBind] = f; register("bind") }

// OnPostBind registers the function that is told of bound pods.
func OnPostBind(f func(*Placed)) {
	scheduling.placed[atPostBind] = func(p *Placed) Outcome { f(p); return Pass() }
	register("postbind")
}

// Prepare answers as the exported function does, and serves tests.
func Prepare(request []byte) []byte {
	if scheduling.prepare == nil {
		return reply[:0]
	}
	current.doc.read(request)
	all := current.doc.root()
	plan := scheduling.prepare(&PodRequest{SchedulerName: all.field("schedulerName").Text(), Pod: all.field("pod")})
	return plan.encode(reply[:0])
}

func placed(point int, request []byte) []byte {
	f := scheduling.placed[point]
	if f == nil {
		return reply[:0]
	}
	current.doc.read(request)
	all := current.doc.root()
	o := f(&Placed{SchedulerName: all.field("schedulerName").Text(), Node: all.field("node").Text(), Pod: all.field("pod")})
	return o.encode(reply[:0])
}

func postFilter(request []byte) []byte {
	if scheduling.postFilter == nil {
		return reply[:0]
	}
	current.doc.read(request)
	all := current.doc.root()
	node, message := scheduling.postFilter(&Hopeless{
		SchedulerName: all.field("schedulerName").Text(), Pod: all.field("pod"), Message: all.field("message").Text(),
		Plugins: all.field("plugins"), Resolvable: all.field("resolvable"),
	})
	out := quote(append(reply[:0], `{"node":`...), node)
	out = quote(append(out, `,"message":`...), message)
	return append(out, '}')
}
