package abi

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The scheduler's part of the native ABI. In one scheduling cycle a guest is
// called with one pod and with all nodes:
//
//	proa_table(n i32) -> i32                       n bytes for the table and the answers; once, when an instance is made
//	proa_prepare(p, n i32) -> i64                  the pod: PrepareRequest, answered with a PrepareReply
//	proa_nodes(p, stride, count, gen i32) -> i32   the node table; 0 is well
//	proa_filter(out, count i32) -> i32             a byte for each record; 0 is well
//	proa_prescore(out, count i32) -> i32           0 goes on to score, 1 skips it; optional
//	proa_score(out, count i32) -> i32              an i32 for each record; 0 is well
//
// and afterwards with the pod and one node, in calls of their own that begin in
// the state after proa_configure, as a PlacedRequest:
//
//	proa_postfilter(p, n i32) -> i64               no node is left: PostFilterRequest, PostFilterReply
//	proa_reserve, proa_permit, proa_prebind, proa_bind (p, n i32) -> i64    PlacedReply
//	proa_unreserve, proa_postbind (p, n i32) -> i64                         the reply is not looked at
//
// A guest exports those that it has; proa_filter and proa_score need
// proa_table, proa_prepare and proa_nodes. If it exports
//
//	proa_points() -> i64                           names of points with commas between, such as "filter,score"
//
// that tells which of them it serves. What proa_table returned stays the host's
// for as long as the instance lives, and is where p and out lie; it is aligned
// to 8 bytes.
//
// # The node table
//
// The table is count records of stride bytes, 128 or more, of which a guest
// knows the first 128; behind them are texts and lists. Everything is little
// endian. Places are offsets from the start of the table. Records keep their
// place while a node lives; one without FlagPresent has no node and is zero.
//
//	  0 u32 name, length      where the name is, and its bytes
//	  8 u32 zone              the zone's number, 0 for none
//	 12 u32 flags
//	 16 i64 allocatable       milli-CPU, memory, ephemeral storage (bytes), pods
//	 48 i64 requested         the same, of all pods on the node
//	 80 u32 taints, count     list of Taint
//	 88 u32 labels, count     list of Label, in the order of the keys
//	 96 i64 non-zero          requested milli-CPU and memory, with the defaults for containers that ask for nothing
//	112 u32 scalars, count    list of Scalar: extended resources
//	120 u32 zone name, length
//
//	Label  u32 key, length, value, length
//	Taint  u32 key, length, value, length, effect (1 NoSchedule, 2 PreferNoSchedule, 3 NoExecute), 0
//	Scalar u32 name, length, i64 allocatable, i64 requested
//
// A text stands in the table once: two that are equal have the same place. So a
// guest finds the place of a label's key once, and then compares numbers.
//
// proa_nodes gets a gen that differs whenever the table does.
//
// # The answers
//
// Before proa_filter the byte of each record is NotAsked or 0; the guest leaves
// 0 to let the node pass, or writes the number of a reason of its PrepareReply,
// counted from 1. What it writes where NotAsked stood is not looked at.
//
// Before proa_score, and before proa_prescore, the i32 of each record is
// NotFeasible or 0; the guest writes a score where 0 stands: 0 to 100, or with
// PrepareReply.Normalize any that is not negative.
const (
	ExportTable      = "proa_table"
	ExportPoints     = "proa_points"
	ExportPrepare    = "proa_prepare"
	ExportNodes      = "proa_nodes"
	ExportFilter     = "proa_filter"
	ExportPreScore   = "proa_prescore"
	ExportScore      = "proa_score"
	ExportPostFilter = "proa_postfilter"
	ExportReserve    = "proa_reserve"
	ExportUnreserve  = "proa_unreserve"
	ExportPermit     = "proa_permit"
	ExportPreBind    = "proa_prebind"
	ExportBind       = "proa_bind"
	ExportPostBind   = "proa_postbind"
)

// A NodeFlag is a bit of a record's flags.
type NodeFlag uint32

// The flags.
const (
	FlagPresent NodeFlag = 1 << iota
	FlagReady            // the condition Ready is True
	FlagUnschedulable
	FlagHardTaint // NoSchedule or NoExecute
	FlagSoftTaint // PreferNoSchedule
	FlagHostPorts // some are in use
)

// The sizes of the table's parts, in bytes.
const (
	NodeStride = 128
	LabelSize  = 16
	TaintSize  = 24
	ScalarSize = 24
)

// The answers that the host writes before it asks.
const (
	NotAsked    byte  = 0xff
	NotFeasible int32 = -1
)

// MaxReasons is how many reasons a PrepareReply may name.
const MaxReasons = 200

// A List is where something in the table begins, and how many there are: bytes
// of a text, or entries.
type List struct{ At, N uint32 }

// A NodeRecord is one record of the table.
type NodeRecord struct {
	Name               List
	Zone               uint32
	Flags              NodeFlag
	Alloc, Requested   [4]int64 // milli-CPU, memory, ephemeral storage, pods
	Taints, Labels     List
	NonZero            [2]int64 // milli-CPU, memory
	Scalars, ZoneLabel List
}

// Put writes the record to b, which has NodeStride bytes or more.
func (r *NodeRecord) Put(b []byte) {
	_ = b[NodeStride-1]
	le := binary.LittleEndian
	list := func(at int, l List) {
		le.PutUint32(b[at:], l.At)
		le.PutUint32(b[at+4:], l.N)
	}
	list(0, r.Name)
	le.PutUint32(b[8:], r.Zone)
	le.PutUint32(b[12:], uint32(r.Flags))
	for k := range 4 {
		le.PutUint64(b[16+8*k:], uint64(r.Alloc[k]))     //nolint:gosec // the bits of an int64
		le.PutUint64(b[48+8*k:], uint64(r.Requested[k])) //nolint:gosec // the bits of an int64
	}
	list(80, r.Taints)
	list(88, r.Labels)
	le.PutUint64(b[96:], uint64(r.NonZero[0]))  //nolint:gosec // the bits of an int64
	le.PutUint64(b[104:], uint64(r.NonZero[1])) //nolint:gosec // the bits of an int64
	list(112, r.Scalars)
	list(120, r.ZoneLabel)
}

// AppendPrepareRequest appends
//
//	{"apiVersion":"proa/v1","schedulerName":"default-scheduler","pod":{…}}
//
// The pod is its JSON.
func AppendPrepareRequest(out []byte, schedulerName string, pod []byte) []byte {
	out = append(out, `{"apiVersion":"`+Native+`","schedulerName":`...)
	out = quote(out, schedulerName)
	out = append(append(out, `,"pod":`...), pod...)
	return append(out, '}')
}

// A PrepareReply is what a guest makes of a pod before it sees a node. The zero
// value goes on with all nodes.
type PrepareReply struct {
	// Reject refuses the pod on every node.
	Reject *RejectReply `json:"reject,omitempty"`
	// Skip leaves out "filter" or "score" for this pod.
	Skip []string `json:"skip,omitempty"`
	// Nodes, if given, are the names of the only nodes that come into question.
	Nodes *[]string `json:"nodes,omitempty"`
	// Reasons are what proa_filter may answer.
	Reasons []ReasonReply `json:"reasons,omitempty"`
	// Normalize brings the scores to 0..100: "scale" makes the highest 100,
	// "reverse" makes the highest 0; without it they are taken as they are.
	Normalize string `json:"normalize,omitempty"`

	SkipFilter, SkipScore bool `json:"-"`
}

// A RejectReply says why a pod is refused.
type RejectReply struct {
	Reasons []string `json:"reasons"`
	// Unresolvable means that removing other pods would not help.
	Unresolvable bool `json:"unresolvable,omitempty"`
}

// A ReasonReply is a reason for which nodes are vetoed.
type ReasonReply struct {
	Reason       string `json:"reason"`
	Unresolvable bool   `json:"unresolvable,omitempty"`
}

// The values of PrepareReply.Normalize.
const (
	NormalizeScale   = "scale"
	NormalizeReverse = "reverse"
)

// ParsePrepareReply decodes and checks a reply; an empty one goes on.
func ParsePrepareReply(b []byte) (*PrepareReply, error) {
	r := &PrepareReply{}
	if len(b) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("the reply is not JSON as it should be: %w", err)
	}
	if r.Reject != nil && (len(r.Reject.Reasons) == 0 || slices.Contains(r.Reject.Reasons, "")) {
		return nil, errors.New("the reply refuses the pod without a reason")
	}
	for _, s := range r.Skip {
		switch s {
		case "filter":
			r.SkipFilter = true
		case "score":
			r.SkipScore = true
		default:
			return nil, fmt.Errorf("the reply skips %q, which is neither filter nor score", s)
		}
	}
	if len(r.Reasons) > MaxReasons {
		return nil, fmt.Errorf("the reply names %d reasons, the limit is %d", len(r.Reasons), MaxReasons)
	}
	for k, reason := range r.Reasons {
		if reason.Reason == "" {
			return nil, fmt.Errorf("reason %d of the reply is empty", k+1)
		}
	}
	if r.Normalize != "" && r.Normalize != NormalizeScale && r.Normalize != NormalizeReverse {
		return nil, fmt.Errorf("the reply normalizes by %q, which is neither %s nor %s", r.Normalize, NormalizeScale, NormalizeReverse)
	}
	return r, nil
}

// A PostFilterRequest tells a guest that no node is left for a pod.
type PostFilterRequest struct {
	APIVersion    string          `json:"apiVersion"` // Native
	SchedulerName string          `json:"schedulerName"`
	Pod           json.RawMessage `json:"pod"`
	// Message is what the user is told.
	Message string `json:"message"`
	// Plugins are the names of those that vetoed nodes.
	Plugins []string `json:"plugins"`
	// Resolvable are nodes on which the pod might fit without other pods; no
	// more than 500.
	Resolvable []string `json:"resolvable"`
}

// A PostFilterReply may name a node that will become free for the pod, and adds
// a sentence to what the user is told.
type PostFilterReply struct {
	Node    string `json:"node,omitempty"`
	Message string `json:"message,omitempty"`
}

// ParsePostFilterReply decodes a reply; an empty one says nothing.
func ParsePostFilterReply(b []byte) (*PostFilterReply, error) {
	r := &PostFilterReply{}
	if len(b) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("the reply is not JSON as it should be: %w", err)
	}
	return r, nil
}

// AppendPlacedRequest appends
//
//	{"apiVersion":"proa/v1","schedulerName":"…","node":"n1","pod":{…}}
func AppendPlacedRequest(out []byte, schedulerName, node string, pod []byte) []byte {
	out = append(out, `{"apiVersion":"`+Native+`","schedulerName":`...)
	out = quote(out, schedulerName)
	out = append(out, `,"node":`...)
	out = quote(out, node)
	out = append(append(out, `,"pod":`...), pod...)
	return append(out, '}')
}

// A PlacedReply is what a guest says of a pod that has a node. An empty reply
// lets the pod go on.
type PlacedReply struct {
	// Allowed is true if it is left out.
	Allowed *bool  `json:"allowed,omitempty"`
	Reason  string `json:"reason,omitempty"` // if not allowed
	// RetrySeconds, of a proa_permit that does not allow, makes the pod wait:
	// the guest is asked again, until TimeoutSeconds (of the first such reply;
	// default 60, at most 900) have gone by.
	RetrySeconds   int32 `json:"retrySeconds,omitempty"`
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// Done, of proa_bind, says that the guest has seen to the binding itself;
	// without it the pod is bound in the usual way.
	Done bool `json:"done,omitempty"`
}

// Passes reports whether the pod goes on.
func (r *PlacedReply) Passes() bool { return r.Allowed == nil || *r.Allowed }

// ParsePlacedReply decodes and checks a reply.
func ParsePlacedReply(b []byte) (*PlacedReply, error) {
	r := &PlacedReply{}
	if len(b) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("the reply is not JSON as it should be: %w", err)
	}
	if r.RetrySeconds < 0 || r.TimeoutSeconds < 0 || r.TimeoutSeconds > 900 {
		return nil, fmt.Errorf("the reply waits for %d s, at most %d s, which is not in 0..900", r.RetrySeconds, r.TimeoutSeconds)
	}
	return r, nil
}

// ParsePoints splits the result of proa_points.
func ParsePoints(b []byte) []string {
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == ',' || r == ' ' })
}

// A ScheduleManifest is the part of a manifest that is about scheduling: the
// member "schedule".
type ScheduleManifest struct {
	// Events are the changes that may let a pod pass which the module has
	// refused, such as NodeAdd or AssignedPodDelete; without them it is any.
	Events []string `json:"events,omitempty"`
}

// ParseScheduleManifest decodes that part of the custom section.
func ParseScheduleManifest(section []byte) (ScheduleManifest, error) {
	var m struct {
		Schedule ScheduleManifest `json:"schedule"`
	}
	if len(section) == 0 {
		return m.Schedule, nil
	}
	if err := json.Unmarshal(section, &m); err != nil {
		return m.Schedule, fmt.Errorf("section %s: schedule: %w", ManifestSection, err)
	}
	return m.Schedule, nil
}
