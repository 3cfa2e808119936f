package engine

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// On Linux an instance's memory is a private mapping of the image, which lives
// in a file in memory. The instances of a program share the pages that they do
// not write, and after a call only the pages ever written by the instance are
// copied back: some 100 KiB for a Go guest instead of 3 MiB.
//
// Which pages those are is asked of the kernel (/proc/self/pagemap: a page that
// was written is private to the process, one that was only read is the
// file's). It need not be asked after every call: a page becomes private by a
// page fault of the thread, so if the thread's count of faults stands still,
// the set of written pages has not grown.

// A cowProbe holds what all memories share.
type cowProbe struct {
	pagemap *os.File
	page    uint64
}

const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageOfFile  = 1 << 61
)

// probeCOW finds out whether this kernel tells the truth about faults and
// pages. It returns nil if it does not; some sandboxes do not.
func probeCOW() *cowProbe {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	p := &cowProbe{pagemap: f, page: uint64(os.Getpagesize())}
	if p.try() != nil {
		_ = f.Close() // was only read
		return nil
	}
	return p
}

func (p *cowProbe) close() error { return p.pagemap.Close() }

func (p *cowProbe) try() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	img, err := p.newImage(make([]byte, 64<<10))
	if err != nil {
		return err
	}
	defer img.close() //nolint:errcheck // a probe
	m := p.newMemory(128 << 10)
	b := m.Reallocate(64 << 10)
	defer m.Free()
	if b == nil {
		return fmt.Errorf("no memory")
	}
	if err := m.adopt(img); err != nil {
		return err
	}
	sum := b[0] + b[p.page] // reads make no page private
	for i := range 2 {
		m.mark()
		b[3*p.page] = 1 + sum
		if i == 0 && faults() == m.faults {
			return fmt.Errorf("faults are not counted")
		}
		if i == 1 && faults() != m.faults {
			return fmt.Errorf("faults are counted that did not happen")
		}
		if err := m.restore(false); err != nil {
			return err
		}
		if b[3*p.page] != 0 || !slices.Equal(m.runs, []run{{3 * p.page, 4 * p.page}}) {
			return fmt.Errorf("pages are not told apart")
		}
	}
	return nil
}

// faults returns the page faults of the calling thread.
func faults() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return -1
	}
	return u.Minflt + u.Majflt
}

// A cowImage is an image in a file in memory.
type cowImage struct {
	fd   int
	view []byte
}

func (p *cowProbe) newImage(content []byte) (*cowImage, error) {
	fd, err := unix.MemfdCreate("proa-wasm", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a memory image: %w", err)
	}
	img := &cowImage{fd: fd}
	if len(content) == 0 {
		return img, nil
	}
	if err = unix.Ftruncate(fd, int64(len(content))); err == nil {
		img.view, err = unix.Mmap(fd, 0, len(content), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make a memory image: %w", err)
	}
	for i := 0; i < len(content); i += int(p.page) { // pages of zeros stay holes
		if c := content[i : i+int(p.page)]; !zero(c) {
			copy(img.view[i:], c)
		}
	}
	if err := unix.Mprotect(img.view, unix.PROT_READ); err != nil {
		return nil, fmt.Errorf("protect a memory image: %w", err)
	}
	return img, nil
}

func zero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
	}
	return true
}

func (i *cowImage) size() uint64 { return uint64(len(i.view)) }

func (i *cowImage) close() error {
	if i.view != nil {
		if err := unix.Munmap(i.view); err != nil {
			return err
		}
		i.view = nil
	}
	return unix.Close(i.fd)
}

// A run is a range of bytes on page boundaries.
type run struct{ from, to uint64 }

// A cowMemory is a linearMemory that is a private mapping of an image.
type cowMemory struct {
	p       *cowProbe
	limit   uint64
	all     []byte // the reserved range
	used    uint64
	denied  bool
	img     *cowImage
	faults  int64
	written []uint64 // bitmap of pages that may differ from the image
	runs    []run    // the same as ranges
	scratch []byte
	window  run // where a Window is
}

func (p *cowProbe) newMemory(limit uint64) *cowMemory { return &cowMemory{p: p, limit: limit} }

// Reallocate implements experimental.LinearMemory.
func (m *cowMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.denied = true
		return nil
	}
	if m.all == nil {
		b, err := unix.Mmap(-1, 0, int(max(m.limit, 1)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			m.denied = true
			return nil
		}
		m.all = b
	}
	if size > m.used {
		if err := unix.Mprotect(m.all[m.used:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			m.denied = true
			return nil
		}
		m.used = size
	}
	return m.all[:size:size]
}

// Free implements experimental.LinearMemory.
func (m *cowMemory) Free() {
	if m.all != nil {
		_ = unix.Munmap(m.all) // the range is ours: this cannot fail
		m.all = nil
	}
}

func (m *cowMemory) refused() bool { d := m.denied; m.denied = false; return d }

func (m *cowMemory) adopt(img image) error {
	m.img = img.(*cowImage) //nolint:errcheck,forcetypeassert // the engine makes both or neither
	n := m.img.size()
	if n == 0 {
		return nil
	}
	_, err := unix.MmapPtr(m.img.fd, 0, unsafe.Pointer(&m.all[0]), uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED) //nolint:gosec // the range is ours
	if err != nil {
		return fmt.Errorf("map a memory image: %w", err)
	}
	m.written = make([]uint64, (n/m.p.page+63)/64)
	m.runs = m.runs[:0]
	m.scratch = make([]byte, n/m.p.page*8)
	m.faults = -1
	return nil
}

func (m *cowMemory) mark() { m.faults = faults() }

// lay maps the window privately, as adopt does with the image: a page that the
// guest does not write is the window's own.
func (m *cowMemory) lay(w *Window, at uint64) error {
	size := uint64(len(w.b))
	if w.free == nil || at%m.p.page != 0 || at+size > uint64(len(m.all)) {
		return fmt.Errorf("a window cannot be laid at %#x", at)
	}
	_, err := unix.MmapPtr(w.fd, 0, unsafe.Pointer(&m.all[at]), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED) //nolint:gosec // the range is ours
	if err != nil {
		return fmt.Errorf("map a window: %w", err)
	}
	m.window = run{at, at + size}
	return nil
}

func (m *cowMemory) restore(loose bool) error {
	if m.img.size() == 0 {
		return nil
	}
	if n := faults(); loose || n != m.faults || n < 0 {
		if err := m.scan(); err != nil {
			return err
		}
	}
	for _, r := range m.runs {
		copy(m.all[r.from:r.to], m.img.view[r.from:r.to])
	}
	return nil
}

// scan asks the kernel which pages have been written.
func (m *cowMemory) scan() error {
	at := uint64(uintptr(unsafe.Pointer(&m.all[0]))) / m.p.page * 8 //nolint:gosec // an address as a number
	if _, err := m.p.pagemap.ReadAt(m.scratch, int64(at)); err != nil {
		return fmt.Errorf("ask for written pages: %w", err)
	}
	grown := false
	for i := 0; i < len(m.scratch); i += 8 {
		e := binary.NativeEndian.Uint64(m.scratch[i:])
		if e&pageSwapped == 0 && (e&pagePresent == 0 || e&pageOfFile != 0) {
			continue
		}
		page := uint(i / 8)
		if at := uint64(page) * m.p.page; m.window.from <= at && at < m.window.to {
			if err := m.drop(at); err != nil {
				return err
			}
			continue
		}
		if bit := uint64(1) << (page % 64); m.written[page/64]&bit == 0 {
			m.written[page/64] |= bit
			grown = true
		}
	}
	if grown {
		m.listRuns()
	}
	return nil
}

// listRuns brings the ranges up to the bitmap.
func (m *cowMemory) listRuns() {
	m.runs = m.runs[:0]
	for w, word := range m.written {
		for ; word != 0; word &= word - 1 {
			from := uint64(w*64+bits.TrailingZeros64(word)) * m.p.page
			if n := len(m.runs); n > 0 && m.runs[n-1].to == from {
				m.runs[n-1].to += m.p.page
			} else {
				m.runs = append(m.runs, run{from, from + m.p.page})
			}
		}
	}
}

// drop gives up the guest's own copy of a page of the window.
func (m *cowMemory) drop(at uint64) error {
	if err := unix.Madvise(m.all[at:at+m.p.page], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("drop a page of a window: %w", err)
	}
	return nil
}

func (e *Engine) newMemory(limit uint64) linearMemory {
	if e.cow != nil {
		return e.cow.newMemory(limit)
	}
	return &plainMemory{limit: limit}
}

func (e *Engine) newImage(content []byte) (image, error) {
	if e.cow != nil {
		return e.cow.newImage(content)
	}
	return plainImage(slices.Clone(content)), nil
}

func (e *Engine) makeWindow(w *Window, size int) error {
	if e.cow == nil {
		w.b = make([]byte, size)
		return nil
	}
	fd, err := unix.MemfdCreate("proa-window", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		w.b, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	w.fd = fd
	w.free = func() error {
		if err := unix.Munmap(w.b); err != nil {
			return err
		}
		return unix.Close(fd)
	}
	return nil
}
