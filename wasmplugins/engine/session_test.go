package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// window is a guest that reads and writes where it is told, and counts.
func window() []byte {
	m := &Module{}
	m.Memory(8, 0)
	n := m.Global(I32, 0)
	m.Func("peek", []byte{I32}, []byte{I32}, nil, Get(0), Load32)
	m.Func("poke", []byte{I32, I32}, nil, nil, Get(0), Get(1), Store32)
	m.Func("count", nil, []byte{I32}, nil, GlobalGet(n), Const32(1), Add32, GlobalSet(n), GlobalGet(n))
	m.Func("trap", nil, nil, nil, Unreachable)
	m.Func("loop", nil, nil, nil, Loop(Br(0)))
	return m.Bytes()
}

const (
	peek = iota
	poke
	count
	trap
	loop
)

func windowConfig(w *engine.Window, at uint32) engine.ProgramConfig {
	return engine.ProgramConfig{
		Name: "w", Exports: []string{"peek", "poke", "count", "trap", "loop"}, Window: w, Instances: 2,
		Warm: func(i *engine.Instance) error {
			if w == nil {
				return nil
			}
			return i.PlaceWindow(at)
		},
	}
}

func TestWindow(t *testing.T) {
	for _, plain := range []bool{false, true} {
		e := newEngine(t, engine.Config{PlainMemory: plain})
		w, err := e.NewWindow(2 * page)
		if err != nil {
			t.Fatal(err)
		}
		const at = 4 * page
		p := start(t, e, window(), windowConfig(w, at))
		read := func(s *engine.Session, ptr uint32) (v uint64) {
			if _, err := s.Run(context.Background(), func(i *engine.Instance) (err error) {
				v, err = i.Call(peek, uint64(ptr))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return v
		}
		for round := range uint32(5) {
			for _, offset := range []uint32{0, 5000, 2*page - 4} {
				binary.LittleEndian.PutUint32(w.Bytes()[offset:], round<<8|offset)
			}
			s := begin(t, p)
			other := begin(t, p)
			for _, offset := range []uint32{0, 5000, 2*page - 4} {
				if got := read(s, at+offset); got != uint64(round<<8|offset) {
					t.Errorf("plain %v, round %d: the guest sees %#x at %d", plain, round, got, offset)
				}
			}
			// What a guest writes there is gone in the next use, and others do
			// not see it.
			if _, err := s.Run(context.Background(), func(i *engine.Instance) error {
				_, err := i.Call(poke, at+5000, 77)
				if err == nil {
					_, err = i.Call(poke, at-4, 77)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got := read(s, at+5000); got != 77 {
				t.Errorf("plain %v, round %d: the guest cannot write to its view", plain, round)
			}
			if got := read(other, at+5000); got != uint64(round<<8|5000) {
				t.Errorf("plain %v, round %d: the other instance sees %d", plain, round, got)
			}
			if got := read(other, at-4); got != 0 {
				t.Errorf("plain %v, round %d: memory before the window is %d", plain, round, got)
			}
			if binary.LittleEndian.Uint32(w.Bytes()[5000:]) != round<<8|5000 {
				t.Errorf("plain %v, round %d: the guest wrote to the host's memory", plain, round)
			}
			other.End()
			if round%2 == 0 {
				s.Loosen()
			}
			s.End()
		}
		p.Close()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWindow_places(t *testing.T) {
	e := newEngine(t, engine.Config{})
	code, err := e.Load(context.Background(), window())
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	w, err := e.NewWindow(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []uint32{0, 100, 8 * page, 0xffff0000} {
		if _, err := e.Start(context.Background(), code, windowConfig(w, at)); engine.ReasonOf(err) != engine.BadReply {
			t.Errorf("at %#x: %v", at, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func begin(t *testing.T, p *engine.Program) *engine.Session {
	t.Helper()
	s, err := p.Begin(context.Background(), engine.Call{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSession(t *testing.T) {
	e := newEngine(t, engine.Config{})
	c := windowConfig(nil, 0)
	c.Instances, c.Limits = 1, engine.Limits{Timeout: 200 * time.Millisecond, Fuel: 1 << 40}
	p := start(t, e, window(), c)
	run := func(s *engine.Session, export int, args ...uint64) (v uint64, u engine.Usage, err error) {
		u, err = s.Run(context.Background(), func(i *engine.Instance) (err error) {
			v, err = i.Call(export, args...)
			return err
		})
		return v, u, err
	}
	for range 3 {
		s := begin(t, p)
		for n := range uint64(3) { // the state stays within a session
			if got, u, err := run(s, count); err != nil || got != n+1 || u.Fuel <= 0 || u.Fuel > 100 {
				t.Fatalf("got %d, %+v, %v", got, u, err)
			}
		}
		if _, _, err := run(s, poke, 4096, 1); err != nil {
			t.Fatal(err)
		}
		s.Loosen()
		done := make(chan struct{})
		go func() { // and goes along to another goroutine
			defer close(done)
			if got, _, err := run(s, count); err != nil || got != 4 {
				t.Errorf("got %d, %v", got, err)
			}
			s.End()
			s.End()
		}()
		<-done
		if _, _, err := run(s, count); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		s = begin(t, p)
		if got, _, err := run(s, peek, 4096); err != nil || got != 0 {
			t.Errorf("the next session finds %d, %v", got, err)
		}
		// A failure is the end, and the instance is good again afterwards.
		if _, _, err := run(s, trap); engine.ReasonOf(err) != engine.Trapped {
			t.Errorf("got %v", err)
		}
		if _, _, err := run(s, count); engine.ReasonOf(err) != engine.Trapped || s.Err() == nil {
			t.Errorf("a session goes on after a trap: %v", err)
		}
		s.End()
	}
	// The clock stands still between the parts, and runs on in them.
	s := begin(t, p)
	if _, _, err := run(s, count); err != nil {
		t.Fatal(err)
	}
	<-time.After(250 * time.Millisecond)
	if got, _, err := run(s, count); err != nil || got != 2 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, _, err := run(s, loop); engine.ReasonOf(err) != engine.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	s.End()
	// Close waits for a session.
	s = begin(t, p)
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	if _, _, err := run(s, count); err != nil {
		t.Error(err)
	}
	s.End()
	<-closed
	if _, err := p.Begin(context.Background(), engine.Call{}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
