package engine

import "github.com/tetratelabs/wazero/experimental"

// A linearMemory is the memory of one instance. It can be brought back to an
// image quickly.
type linearMemory interface {
	experimental.LinearMemory

	// refused reports whether the guest was refused memory since the last
	// call of refused.
	refused() bool
	// adopt makes the image the content and what restore goes back to. The
	// memory has the size of the image.
	adopt(img image) error
	// mark is called before a guest call, on the goroutine that makes it.
	mark()
	// restore brings the content back to the image. The memory must have the
	// size of the image. The goroutine must be that of mark, on the same thread,
	// unless loose says that it may not be.
	restore(loose bool) error
	// lay makes what is at the offset a view of the window.
	lay(w *Window, at uint64) error
}

// An image is the content of a warm instance's memory, shared by all instances
// of a program.
type image interface {
	size() uint64
	close() error
}

// plainMemory is a linearMemory in the Go heap; restore copies all of it.
type plainMemory struct {
	limit  uint64
	b      []byte
	denied bool
	img    plainImage
	window *Window
	at     uint64 // of the window
}

type plainImage []byte

func (p plainImage) size() uint64 { return uint64(len(p)) }
func (p plainImage) close() error { return nil }

// Reallocate implements experimental.LinearMemory.
func (m *plainMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.denied = true
		return nil
	}
	if size > uint64(cap(m.b)) {
		b := make([]byte, size, min(m.limit, size+size/4))
		copy(b, m.b)
		m.b = b
	}
	m.b = m.b[:size]
	return m.b
}

// Free implements experimental.LinearMemory.
func (m *plainMemory) Free() { m.b = nil }

func (m *plainMemory) refused() bool { d := m.denied; m.denied = false; return d }

func (m *plainMemory) adopt(img image) error {
	m.img = img.(plainImage) //nolint:errcheck,forcetypeassert // the engine makes both or neither
	return m.restore(false)
}

func (m *plainMemory) mark() {
	if m.window != nil {
		copy(m.b[m.at:], m.window.b)
	}
}

func (m *plainMemory) lay(w *Window, at uint64) error {
	m.window, m.at = w, at
	return nil
}

func (m *plainMemory) restore(bool) error { copy(m.b, m.img); return nil }
