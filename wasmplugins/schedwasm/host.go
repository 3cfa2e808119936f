package schedwasm

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/wasmplugins/engine"
)

// The import modules.
const (
	moduleAPI       = "k8s.io/api"
	moduleScheduler = "k8s.io/scheduler"
	moduleLog       = "k8s.io/klog"
)

// imports are the host's functions. Those that fetch have the place and size of
// a buffer as their last parameters, and return the size of what is to be
// fetched; it is written if it fits.
func imports(settings []byte) []engine.Import {
	list := []engine.Import{
		fetch(moduleAPI, "nodeList", func(_ *engine.Instance, c *Cycle) []byte { return c.nodeList() }),
		fetchOf(moduleAPI, "node", func(i *engine.Instance, c *Cycle, name string) []byte { return c.g.nodes.node(i, c, name) }),
		fetch(moduleScheduler, "currentPod", func(_ *engine.Instance, c *Cycle) []byte { return c.podBytes() }),
		fetch(moduleScheduler, "targetPod", func(*engine.Instance, *Cycle) []byte { return nil }), // for addpod and removepod, which nobody calls
		fetch(moduleScheduler, "currentNodeName", func(_ *engine.Instance, c *Cycle) []byte { return []byte(c.node) }),
		fetch(moduleScheduler, "filteredNodeList", func(_ *engine.Instance, c *Cycle) []byte { return c.filteredNodes() }),
		fetch(moduleScheduler, "nodeToStatusMap", func(_ *engine.Instance, c *Cycle) []byte { return encode(c.statuses) }),
		fetch(moduleScheduler, "nodeScoreList", func(_ *engine.Instance, c *Cycle) []byte { return encode(c.scores) }),
		fetchOf(moduleScheduler, "nodeImageStates", func(_ *engine.Instance, c *Cycle, name string) []byte { return c.images(name) }),
		{Module: moduleScheduler, Name: "get_config", Params: i32s(2), Results: i32s(1), Call: func(i *engine.Instance, s []uint64) {
			s[0] = fill(i, settings, s[0], s[1]) // guests read it when they are started
		}},
		store("result.cluster_events", func(_ *engine.Instance, c *Cycle, b []byte) { c.clusterEvents = bytes.Clone(b[:min(len(b), 1024)]) }),
		store("result.node_names", func(_ *engine.Instance, c *Cycle, b []byte) { c.nodeNames, c.restricts = words(b), true }),
		store("result.nominated_node_name", func(_ *engine.Instance, c *Cycle, b []byte) { c.nominated = string(b[:min(len(b), 253)]) }),
		store("result.status_reason", func(_ *engine.Instance, c *Cycle, b []byte) {
			c.reason = strings.ToValidUTF8(string(b[:min(len(b), 1024)]), "?")
		}),
		store("result.normalized_score_list", func(i *engine.Instance, c *Cycle, b []byte) {
			c.normalized = nil
			if err := json.Unmarshal(b, &c.normalized); err != nil {
				i.Stop(engine.BadReply, "result.normalized_score_list: %v", err)
			}
		}),
		store("handle.eventrecorder.eventf", recordEvent),
		{Module: moduleScheduler, Name: "handle.reject_waiting_pod", Params: i32s(4), Call: rejectWaiting},
		{Module: moduleScheduler, Name: "handle.get_waiting_pod", Params: i32s(4), Call: getWaiting},
	}
	return append(list, logImports()...)
}

func i32s(n int) []api.ValueType {
	return bytes.Repeat([]api.ValueType{api.ValueTypeI32}, n)
}

// fetch is a function (buffer, limit) -> length.
func fetch(module, name string, get func(*engine.Instance, *Cycle) []byte) engine.Import {
	return engine.Import{Module: module, Name: name, Params: i32s(2), Results: i32s(1), Call: func(i *engine.Instance, s []uint64) {
		s[0] = fill(i, get(i, of(i)), s[0], s[1])
	}}
}

// fetchOf is a function (name, length, buffer, limit) -> length.
func fetchOf(module, name string, get func(*engine.Instance, *Cycle, string) []byte) engine.Import {
	return engine.Import{Module: module, Name: name, Params: i32s(4), Results: i32s(1), Call: func(i *engine.Instance, s []uint64) {
		c := of(i)
		s[0] = fill(i, get(i, c, string(i.Argument(s[0], s[1]))), s[2], s[3])
	}}
}

// fill writes b if it fits, and returns its length.
func fill(i *engine.Instance, b []byte, ptr, limit uint64) uint64 {
	i.Charge(10 + int64(len(b))>>6)
	if len(b) > 0 && uint64(len(b)) <= uint64(low(limit)) && !i.Write(low(ptr), b) {
		i.Stop(engine.Trapped, "gave a buffer of %d bytes at %#x, which is outside its memory", low(limit), low(ptr))
	}
	return uint64(len(b))
}

// store is a function (place, length) by which a guest answers.
func store(name string, put func(*engine.Instance, *Cycle, []byte)) engine.Import {
	return engine.Import{Module: moduleScheduler, Name: name, Params: i32s(2), Call: func(i *engine.Instance, s []uint64) {
		put(i, of(i), i.Argument(s[0], s[1]))
	}}
}

// words splits texts that each end with a zero.
func words(b []byte) []string {
	var list []string
	for len(b) > 0 {
		word, rest, ok := bytes.Cut(b, []byte{0})
		if !ok {
			break
		}
		list, b = append(list, string(word)), rest
	}
	return list
}

func encode[T any](m map[string]T) []byte {
	b, err := json.Marshal(m)
	if err != nil || m == nil {
		return []byte("{}") // numbers by names can be encoded
	}
	return b
}

func (c *Cycle) podBytes() []byte {
	if c.encoded == nil && c.pod != nil {
		c.encoded, _ = c.pod.Marshal() // what was decoded can be encoded
	}
	return c.encoded
}

func (c *Cycle) filteredNodes() []byte {
	names := make([]string, len(c.filtered))
	for k, n := range c.filtered {
		names[k] = c.snapshot.Name(n)
	}
	b, _ := json.Marshal(names) // names can be encoded
	return b
}

// lookUp returns a node.
func (c *Cycle) lookUp(name string) *corev1.Node {
	if c.snapshot != nil {
		if i, ok := c.snapshot.Index(name); ok {
			return c.snapshot.Node(i).Node
		}
		return nil
	}
	if c.g.c.Node != nil {
		if n, ok := c.g.c.Node(name); ok {
			return n
		}
	}
	return nil
}

func (c *Cycle) nodeList() []byte {
	var list corev1.NodeList
	if c.snapshot != nil {
		for _, i := range c.snapshot.Indices() {
			list.Items = append(list.Items, *c.snapshot.Node(i).Node)
		}
	}
	b, _ := list.Marshal() // what was decoded can be encoded
	return b
}

// images are the images on a node as the scheduler sums them up.
func (c *Cycle) images(name string) []byte {
	type state struct {
		Size     int64
		NumNodes int
	}
	states := make(map[string]state)
	if c.snapshot != nil {
		if i, ok := c.snapshot.Index(name); ok {
			for image, size := range c.snapshot.Node(i).Images {
				states[image] = state{size, c.snapshot.NodesWithImage(image)}
			}
		}
	}
	return encode(states)
}

// encodings are nodes as protobuf, kept until the node changes.
type encodings struct {
	mu   sync.Mutex // guards the field below
	kept map[string]encoding
}

type encoding struct {
	of    *corev1.Node
	bytes []byte
}

// maxEncodings bounds them; then they are forgotten.
const maxEncodings = 20_000

func (e *encodings) node(i *engine.Instance, c *Cycle, name string) []byte {
	n := c.lookUp(name)
	if n == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if k, ok := e.kept[name]; ok && k.of == n {
		return k.bytes
	}
	b, err := n.Marshal()
	if err != nil {
		i.Stop(engine.BadReply, "node %q cannot be encoded: %v", name, err)
	}
	i.Charge(100)
	if e.kept == nil || len(e.kept) >= maxEncodings {
		e.kept = make(map[string]encoding)
	}
	e.kept[name] = encoding{n, b}
	return b
}

// recordEvent is handle.eventrecorder.eventf.
func recordEvent(i *engine.Instance, c *Cycle, b []byte) {
	type reference struct{ Kind, APIVersion, Name, Namespace, UID, ResourceVersion string }
	var e struct {
		RegardingReference, RelatedReference reference
		Eventtype, Reason, Action, Note      string
	}
	if err := json.Unmarshal(b, &e); err != nil {
		i.Stop(engine.BadReply, "handle.eventrecorder.eventf: %v", err)
	}
	i.Charge(1000)
	if c.g.c.Event == nil {
		return
	}
	convert := func(r reference) corev1.ObjectReference {
		return corev1.ObjectReference{Kind: r.Kind, APIVersion: r.APIVersion, Name: r.Name, Namespace: r.Namespace, UID: types.UID(r.UID), ResourceVersion: r.ResourceVersion}
	}
	c.g.c.Event(convert(e.RegardingReference), convert(e.RelatedReference), e.Eventtype, e.Reason, e.Action, e.Note)
}

// rejectWaiting is (uid, length, result, limit): it writes 1 or 0, as a u64.
func rejectWaiting(i *engine.Instance, s []uint64) {
	c := of(i)
	uid := types.UID(i.Argument(s[0], s[1]))
	var out [8]byte
	if c.g.c.Waiting.reject(uid) {
		out[0] = 1
	}
	fill(i, out[:], s[2], s[3])
}

// getWaiting is (uid, length, buffer, limit): it writes the pod, or a zero.
func getWaiting(i *engine.Instance, s []uint64) {
	c := of(i)
	pod := c.g.c.Waiting.get(types.UID(i.Argument(s[0], s[1])))
	if pod == nil {
		fill(i, make([]byte, 8), s[2], s[3])
		return
	}
	b, _ := pod.Marshal() // what was decoded can be encoded
	fill(i, b, s[2], s[3])
}

// The severities of log lines, as a guest names them.
const (
	severityWarning = 1
)

func logImports() []engine.Import {
	level := func(severity uint64) engine.Level {
		switch low(severity) {
		case 0:
			return engine.Notice
		case severityWarning:
			return engine.Warn
		default:
			return engine.Err
		}
	}
	return []engine.Import{
		{Module: moduleLog, Name: "log", Params: i32s(3), Call: func(i *engine.Instance, s []uint64) {
			i.Print(level(s[0]), i.Argument(s[1], s[2]))
		}},
		{Module: moduleLog, Name: "logs", Params: i32s(5), Call: func(i *engine.Instance, s []uint64) {
			line := bytes.Clone(i.Argument(s[1], s[2]))
			pairs := words(i.Argument(s[3], s[4]))
			for k := 0; k+1 < len(pairs); k += 2 {
				line = append(line, (" " + pairs[k] + "=" + pairs[k+1])...)
			}
			i.Print(level(s[0]), line)
		}},
		{Module: moduleLog, Name: "severity", Results: i32s(1), Call: func(_ *engine.Instance, s []uint64) { s[0] = 0 }},
	}
}
