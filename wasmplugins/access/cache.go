package access

import (
	"sync"
	"time"
)

// maxCached bounds what is remembered of one plugin.
const maxCached = 4096

// A cache remembers answers for a time. The zero value is ready.
type cache[K comparable, V any] struct {
	mu sync.Mutex // guards the fields below
	of map[K]cached[V]
	by string // the version of the module that answered
}

type cached[V any] struct {
	value V
	until time.Time
}

// get returns what is remembered of answers by a version.
func (c *cache[K, V]) get(k K, by string, now time.Time) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.of[k]
	if !ok || c.by != by || now.After(e.until) {
		var none V
		return none, false
	}
	return e.value, true
}

// put remembers an answer. When there are too many, those that are over go
// first, then any.
func (c *cache[K, V]) put(k K, v V, by string, now time.Time, life time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || c.by != by {
		c.of, c.by = map[K]cached[V]{}, by
	}
	if len(c.of) >= maxCached {
		for k, e := range c.of {
			if now.After(e.until) {
				delete(c.of, k)
			}
		}
		for k := range c.of {
			if len(c.of) < maxCached {
				break
			}
			delete(c.of, k)
		}
	}
	c.of[k] = cached[V]{v, now.Add(life)}
}
