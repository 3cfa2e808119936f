//go:build !linux

package engine

import "slices"

// Elsewhere than on Linux the memory is plain.
type cowProbe struct{}

func probeCOW() *cowProbe      { return nil }
func (*cowProbe) close() error { return nil }

func (e *Engine) newMemory(limit uint64) linearMemory { return &plainMemory{limit: limit} }

func (e *Engine) newImage(content []byte) (image, error) {
	return plainImage(slices.Clone(content)), nil
}

func (e *Engine) makeWindow(w *Window, size int) error {
	w.b = make([]byte, size)
	return nil
}
