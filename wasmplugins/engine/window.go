package engine

import (
	"fmt"
	"sync/atomic"
)

// WindowAlign is what the place of a Window in a guest's memory must be a
// multiple of, and its size as well: the largest page of the machines that Go
// runs on.
const WindowAlign = 64 << 10

// A Window is memory of the host that every instance of a program sees in its
// own memory, at one place: what the host writes is there for all of them, with
// nothing copied, if the system can do it. An instance may write to what it
// sees, but nobody else sees that, and it is gone at the end of the use.
//
// The host writes only while no instance that sees the window is in use.
type Window struct {
	b    []byte
	refs atomic.Int32 // the owner, and each program
	free func() error
	fd   int // of the file that b is of, if free is not nil
}

// NewWindow returns a window of zeros. The size is rounded up to WindowAlign.
func (e *Engine) NewWindow(size int) (*Window, error) {
	size = (size + WindowAlign - 1) &^ (WindowAlign - 1)
	w := &Window{}
	if err := e.makeWindow(w, size); err != nil {
		return nil, fmt.Errorf("make a window: %w", err)
	}
	w.refs.Store(1)
	return w, nil
}

// Bytes is what the instances see.
func (w *Window) Bytes() []byte { return w.b }

// Close gives the window up. It is freed when the programs that have it are
// closed, too.
func (w *Window) Close() error { return w.release() }

func (w *Window) release() error {
	if w.refs.Add(-1) > 0 || w.free == nil {
		return nil
	}
	return w.free()
}

// PlaceWindow says where in its memory a guest wants ProgramConfig.Window to
// be. It is called while the instance is warmed; all instances have it there.
func (i *Instance) PlaceWindow(at uint32) error {
	size := uint64(len(i.p.c.Window.b))
	switch {
	case at == 0 || at%WindowAlign != 0:
		return i.Errorf(BadReply, "a window cannot be at %#x", at)
	case i.memory == nil || uint64(at)+size > uint64(i.memory.Size()):
		return i.Errorf(BadReply, "a window of %d bytes at %#x is outside the memory", size, at)
	case i.p.windowAt != 0 && i.p.windowAt != at:
		return i.Errorf(BadReply, "the window is at %#x in one instance and at %#x in another", i.p.windowAt, at)
	}
	if i.p.windowAt == 0 { // the first instance, before there are others
		i.p.windowAt = at
	}
	return nil
}

// layWindow puts the program's window in its place.
func (i *Instance) layWindow() error {
	if i.p.windowAt == 0 {
		return nil
	}
	return i.linear.lay(i.p.c.Window, uint64(i.p.windowAt))
}
