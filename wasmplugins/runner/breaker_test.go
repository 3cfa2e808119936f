package runner

import (
	"testing"
	"time"
)

// TestBreaker goes through the states with times that it makes up.
func TestBreaker(t *testing.T) {
	t.Parallel()
	var told []bool
	b := newBreaker(Breaker{Failures: 3, Window: 10 * time.Second, Pause: time.Second, MaxPause: 3 * time.Second}, func(open bool) { told = append(told, open) })
	now := time.Unix(1000, 0)
	open := func() bool { _, open := b.allow(now); return open }
	fail := func(n int) {
		for range n {
			b.bad(now)
		}
	}
	fail(2)
	now = now.Add(11 * time.Second)
	fail(2) // the first two are too long ago
	if open() {
		t.Fatal("open after two failures in the window")
	}
	b.good()
	fail(2)
	if open() {
		t.Fatal("open though a call in between was good")
	}
	fail(1)
	if wait, is := b.allow(now); !is || wait != time.Second {
		t.Fatalf("after three failures: open %v for %v", is, wait)
	}
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		now = now.Add(pause - time.Millisecond)
		if !open() {
			t.Fatalf("a call before %v are over", pause)
		}
		now = now.Add(time.Millisecond)
		if open() {
			t.Fatalf("no call after %v", pause)
		}
		if !open() {
			t.Fatal("a second call beside the one that is tried")
		}
		fail(1)
	}
	now = now.Add(time.Minute)
	if open() {
		t.Fatal("no call after a minute")
	}
	b.cancel() // it proves nothing, so the next is tried
	if open() {
		t.Fatal("no call after one that was given up")
	}
	b.good()
	if open() || b.isOpen() {
		t.Fatal("open after a good call")
	}
	if len(told) != 2 || !told[0] || told[1] {
		t.Errorf("told %v", told)
	}
}

type closer struct{ closed bool }

func (c *closer) Close() { c.closed = true }

// TestVersions keeps what was replaced for its time, and not too many.
func TestVersions(t *testing.T) {
	t.Parallel()
	var v versions[*closer]
	now := time.Unix(1000, 0)
	var all []*closer
	for i := range maxVersions + 1 {
		c := &closer{}
		all = append(all, c)
		v.add(&current[*closer]{guest: c, digest: string(rune('a' + i%2)), until: now.Add(time.Duration(i) * time.Second)})
	}
	if !all[0].closed || all[1].closed {
		t.Error("not the oldest goes when there are too many")
	}
	if c := v.find("a"); c == nil || c.guest != all[maxVersions] {
		t.Error("not the latest of a version is found")
	}
	if v.find("none") != nil {
		t.Error("found what is not there")
	}
	if wait := v.expire(now.Add(3 * time.Second)); wait != time.Second || !all[3].closed || all[4].closed {
		t.Errorf("wait %v", wait)
	}
	if wait := v.expire(time.Time{}); wait != 0 || !all[maxVersions].closed {
		t.Errorf("after all: wait %v", wait)
	}
}
