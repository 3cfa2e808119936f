package runner

import (
	"slices"
	"sync"
	"time"
)

// maxVersions is how many guests that were replaced are kept at once.
const maxVersions = 8

// versions are guests that were replaced a moment ago.
type versions[G Guest] struct {
	mu   sync.Mutex // guards the field below
	list []*current[G]
}

// find returns the latest of a version, nil if it is no longer there.
func (v *versions[G]) find(digest string) *current[G] {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range slices.Backward(v.list) {
		if c.digest == digest {
			return c
		}
	}
	return nil
}

func (v *versions[G]) add(c *current[G]) {
	v.mu.Lock()
	v.list = append(v.list, c)
	var over *current[G]
	if len(v.list) > maxVersions {
		over, v.list = v.list[0], v.list[1:]
	}
	v.mu.Unlock()
	if over != nil {
		over.guest.Close()
	}
}

// expire closes those whose time is over, all with a zero now, and returns how
// long the next is still wanted; 0 if there is none.
func (v *versions[G]) expire(now time.Time) time.Duration {
	v.mu.Lock()
	n := 0
	for n < len(v.list) && (now.IsZero() || !now.Before(v.list[n].until)) {
		n++
	}
	over := v.list[:n:n]
	v.list = v.list[n:]
	var wait time.Duration
	if len(v.list) > 0 {
		wait = v.list[0].until.Sub(now)
	}
	v.mu.Unlock()
	for _, c := range over {
		c.guest.Close()
	}
	return wait
}
