package schedule

import (
	"errors"
	"fmt"
	"sync"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

const (
	minRecords = 64
	// heapPerNode is how much of the heap is planned for a node at first.
	heapPerNode = 256
	// maxTable bounds the table: some 60,000 nodes with many labels.
	maxTable = 64 << 20
)

// nodes is the node table that all guests share. One cycle has it at a time.
type nodes struct {
	engine *engine.Engine

	mu     sync.Mutex // held by a cycle; guards the fields below
	table  *table
	window *engine.Window
	pod    []byte // of the cycle, as JSON
	podOf  *framework.PodInfo
	closed bool
}

// lend gives the cycle the table, in the state of its snapshot, until it ends.
func (n *nodes) lend(c *framework.Cycle) error {
	if c.State(n) != nil {
		return nil
	}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return engine.ErrClosed
	}
	if err := n.sync(c.Snapshot); err != nil {
		n.mu.Unlock()
		return err
	}
	c.SetState(n, n)
	c.OnEnd(n)
	return nil
}

// EndCycle implements framework.Ender.
func (n *nodes) EndCycle(bool) { n.mu.Unlock() }

func (n *nodes) sync(s *framework.Snapshot) error {
	if n.table != nil {
		err := n.table.sync(s)
		if !errors.Is(err, errFull) {
			return err
		}
	}
	records, heap := minRecords, minRecords*heapPerNode
	for records < s.Size()+s.Size()/8 {
		records *= 2
	}
	if n.table != nil {
		heap = len(n.table.b) - n.table.records*abi.NodeStride
		records = max(records, n.table.records)
	}
	for heap = max(heap, records*heapPerNode); ; heap *= 2 {
		size := records*abi.NodeStride + heap
		if size > maxTable {
			return fmt.Errorf("the node table would have more than %d MiB", maxTable>>20)
		}
		w, err := n.engine.NewWindow(size)
		if err != nil {
			return err
		}
		t := newTable(w.Bytes(), records)
		if n.table != nil {
			t.gen += n.table.gen
		}
		if err = t.sync(s); err == nil && t.crowded() {
			err = errFull
		}
		if err == nil {
			err = n.close()
			n.table, n.window = t, w
			return err
		}
		if closeErr := w.Close(); !errors.Is(err, errFull) || closeErr != nil {
			return errors.Join(err, closeErr)
		}
	}
}

// close gives the window up; guests that have it keep it until they end.
func (n *nodes) close() error {
	if n.window == nil {
		return nil
	}
	w := n.window
	n.table, n.window = nil, nil
	return w.Close()
}

// podJSON encodes a pod once for all guests. It is called by who has the table.
func (n *nodes) podJSON(p *framework.PodInfo) ([]byte, error) {
	if n.podOf != p {
		b, err := api.Encode(p.Pod)
		if err != nil {
			return nil, err
		}
		n.pod, n.podOf = b, p
	}
	return n.pod, nil
}
