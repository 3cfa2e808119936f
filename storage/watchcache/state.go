package watchcache

import (
	"slices"
	"strings"

	"github.com/proa-project/proa/storage"
)

// A state is what the cache holds as of one revision. It is immutable but for
// next, and whoever has loaded one can read it without a lock.
type state struct {
	revision int64
	// base is the revision of the list that the cache began with: nothing is
	// known of what was before.
	base    int64
	buckets []*bucket // sorted by name
	next    chan struct{}
	closed  bool // the cache has closed
}

// A bucket is the part of a state that holds one resource. Its name is the
// prefix of its keys; the bucket whose name is the cache's prefix holds the
// keys that belong to no resource.
type bucket struct {
	name string
	tree tree
	ring ring
	next chan struct{} // closed when a later state has a changed bucket
}

// bucketName returns the name of the bucket that key belongs to, and where the
// keys that begin with key are, if they are all in one bucket: prefix itself
// for other keys.
//
// A resource is named by the first segment below prefix; if that has a dot it
// is a group, and the second segment belongs to the name.
func bucketName(prefix, key string) string {
	if len(key) <= len(prefix) {
		return prefix
	}
	rest := key[len(prefix):]
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return prefix
	}
	if strings.IndexByte(rest[:slash], '.') >= 0 {
		second := strings.IndexByte(rest[slash+1:], '/')
		if second < 0 {
			return prefix
		}
		slash += 1 + second
	}
	return key[:len(prefix)+slash+1]
}

// bucket returns the bucket with a name, or nil.
func (s *state) bucket(name string) *bucket {
	i, found := slices.BinarySearchFunc(s.buckets, name, func(b *bucket, name string) int { return strings.Compare(b.name, name) })
	if !found {
		return nil
	}
	return s.buckets[i]
}

// covering returns the buckets that may hold keys which begin with prefix.
// scratch is used for the answer if it has the room.
func (s *state) covering(root, prefix string, scratch []*bucket) []*bucket {
	if name := bucketName(root, prefix); name != root {
		if b := s.bucket(name); b != nil {
			return append(scratch, b)
		}
		return scratch
	}
	for _, b := range s.buckets {
		if b.name == root || strings.HasPrefix(b.name, prefix) {
			scratch = append(scratch, b)
		}
	}
	return scratch
}

// newState returns the state of a list.
func newState(prefix string, revision int64, items []*storage.Item) *state {
	s := &state{revision: revision, base: revision, next: make(chan struct{})}
	parts := map[string][]*storage.Item{}
	for _, item := range items {
		name := bucketName(prefix, item.Key)
		parts[name] = append(parts[name], item)
	}
	for name, part := range parts {
		s.buckets = append(s.buckets, &bucket{name: name, tree: newTree(part), ring: ring{floor: revision}, next: make(chan struct{})})
	}
	slices.SortFunc(s.buckets, func(a, b *bucket) int { return strings.Compare(a.name, b.name) })
	return s
}

// A change makes the state that follows another.
type change struct {
	number uint64
	limits limits
	from   *state
	to     *state
	edited []*editing
}

// editing is a bucket that a change is about.
type editing struct {
	b      *bucket
	editor editor
}

func newChange(number uint64, from *state, l limits) *change {
	to := *from
	to.next = make(chan struct{})
	return &change{number: number, limits: l, from: from, to: &to}
}

// edit returns the bucket with a name, ready to be changed.
func (c *change) edit(name string) *editing {
	for _, e := range c.edited { // few
		if e.b.name == name {
			return e
		}
	}
	b := &bucket{name: name, ring: ring{floor: c.from.base}}
	if old := c.from.bucket(name); old != nil {
		*b = *old
	}
	b.next = make(chan struct{})
	e := &editing{b: b, editor: editor{number: c.number, t: b.tree}}
	c.edited = append(c.edited, e)
	return e
}

// finish returns the new state, for revision.
func (c *change) finish(revision int64) *state {
	if len(c.edited) > 0 {
		c.to.buckets = slices.Clone(c.from.buckets)
	}
	for _, e := range c.edited {
		e.b.tree = e.editor.t
		i, found := slices.BinarySearchFunc(c.to.buckets, e.b.name, func(b *bucket, name string) int { return strings.Compare(b.name, name) })
		if found {
			c.to.buckets[i] = e.b
		} else {
			c.to.buckets = slices.Insert(c.to.buckets, i, e.b)
		}
	}
	c.to.revision = max(revision, c.from.revision)
	return c.to
}

// announce wakes who waits for a state to be followed by next.
func (s *state) announce(next *state) {
	for _, b := range s.buckets {
		if next.closed || next.bucket(b.name) != b {
			close(b.next)
		}
	}
	close(s.next)
}
