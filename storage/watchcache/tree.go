package watchcache

import (
	"slices"
	"sort"

	"github.com/proa-project/proa/storage"
)

// chunkSize is how many items a chunk of a tree holds at most. A change
// copies one chunk and the list of chunks.
const chunkSize = 128

// A tree is an immutable ordered set of items: a sorted list of sorted chunks,
// none of them empty. Trees share the chunks that they have in common.
type tree struct {
	chunks []*chunk
	size   int
}

// chunk belongs to the editor that made it until that has finished. It names
// the editor by number: a pointer would keep what the editor began with alive.
type chunk struct {
	owner uint64 // 0 is nobody
	items []*storage.Item
}

// newTree returns the tree of items that are sorted by key.
func newTree(items []*storage.Item) tree {
	const fill = chunkSize * 3 / 4 // leaves room to insert
	t := tree{size: len(items)}
	for part := range slices.Chunk(items, fill) {
		own := make([]*storage.Item, len(part), chunkSize)
		copy(own, part)
		t.chunks = append(t.chunks, &chunk{items: own})
	}
	return t
}

// get returns the item at key, or nil.
func (t tree) get(key string) *storage.Item {
	p, found := t.find(key)
	if !found {
		return nil
	}
	return t.chunks[p.chunk].items[p.item]
}

// same reports whether two trees are one.
func (t tree) same(other tree) bool {
	return len(t.chunks) == len(other.chunks) && (len(t.chunks) == 0 || &t.chunks[0] == &other.chunks[0])
}

// position is a place in a tree: before an item, or at the end. At the end
// and between chunks, chunk is the later one and item is 0.
type position struct{ chunk, item int }

// find returns where key is, or where it would be, and whether it is there.
func (t tree) find(key string) (position, bool) {
	c := sort.Search(len(t.chunks), func(i int) bool { return t.chunks[i].items[0].Key > key }) - 1
	if c < 0 {
		return position{}, false
	}
	items := t.chunks[c].items
	i := sort.Search(len(items), func(i int) bool { return items[i].Key >= key })
	if i == len(items) {
		return position{c + 1, 0}, false
	}
	return position{c, i}, items[i].Key == key
}

// span returns the places of the keys that begin with prefix and come after
// another key ("" is before all).
func (t tree) span(prefix, after string) (from, to position) {
	from, _ = t.find(prefix)
	if after >= prefix && after != "" {
		p, found := t.find(after)
		if found {
			p = t.next(p)
		}
		from = p
	}
	to = position{len(t.chunks), 0}
	if end, bounded := prefixEnd(prefix); bounded {
		to, _ = t.find(end)
	}
	if to.chunk < from.chunk || to.chunk == from.chunk && to.item < from.item {
		to = from
	}
	return from, to
}

func (t tree) next(p position) position {
	if p.item++; p.item == len(t.chunks[p.chunk].items) {
		return position{p.chunk + 1, 0}
	}
	return p
}

// count returns how many items are between two places.
func (t tree) count(from, to position) int {
	n := to.item - from.item
	for c := from.chunk; c < to.chunk; c++ {
		n += len(t.chunks[c].items)
	}
	return n
}

// parts calls yield with the items between two places, chunk by chunk, until
// it returns false.
func (t tree) parts(from, to position, yield func([]*storage.Item) bool) {
	for c := from.chunk; c < len(t.chunks) && c <= to.chunk; c++ {
		items := t.chunks[c].items
		if c == to.chunk {
			items = items[:to.item]
		}
		if c == from.chunk {
			items = items[from.item:]
		}
		if len(items) > 0 && !yield(items) {
			return
		}
	}
}

// prefixEnd returns the first key after all that begin with prefix; false if
// there is none.
func prefixEnd(prefix string) (string, bool) {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return string(end[:i+1]), true
		}
	}
	return "", false
}

// An editor makes a new tree out of another. It changes the chunks that it
// has made itself in place.
type editor struct {
	number uint64 // not 0, and no other editor's
	t      tree
	copied bool // t.chunks is the editor's own
}

// put adds or replaces an item and returns what was there before, or nil.
func (e *editor) put(item *storage.Item) *storage.Item {
	p, found := e.t.find(item.Key)
	if found {
		items := e.own(p.chunk).items
		before := items[p.item]
		items[p.item] = item
		return before
	}
	e.t.size++
	if p.item == 0 && p.chunk > 0 { // the end of the chunk before is as good
		p = position{p.chunk - 1, len(e.t.chunks[p.chunk-1].items)}
	}
	if len(e.t.chunks) == 0 {
		e.t.chunks, e.copied = []*chunk{{owner: e.number, items: append(make([]*storage.Item, 0, chunkSize), item)}}, true
		return nil
	}
	c := e.own(p.chunk)
	if len(c.items) == chunkSize {
		at := chunkSize / 2
		if p.item == chunkSize { // keys that ascend fill their chunks
			at = chunkSize - 1
		}
		second := &chunk{owner: e.number, items: make([]*storage.Item, chunkSize-at, chunkSize)}
		copy(second.items, c.items[at:])
		clear(c.items[at:])
		c.items = c.items[:at]
		e.t.chunks = slices.Insert(e.t.chunks, p.chunk+1, second)
		if p.item > at {
			c, p.item = second, p.item-at
		}
	}
	c.items = slices.Insert(c.items, p.item, item)
	return nil
}

// remove takes the item at key away and returns it, or nil.
func (e *editor) remove(key string) *storage.Item {
	p, found := e.t.find(key)
	if !found {
		return nil
	}
	e.t.size--
	c := e.own(p.chunk)
	before := c.items[p.item]
	c.items = slices.Delete(c.items, p.item, p.item+1)
	switch next := p.chunk + 1; {
	case len(c.items) == 0:
		e.t.chunks = slices.Delete(e.t.chunks, p.chunk, next)
	case next < len(e.t.chunks) && len(c.items)+len(e.t.chunks[next].items) <= chunkSize/2:
		c.items = append(c.items, e.t.chunks[next].items...)
		e.t.chunks = slices.Delete(e.t.chunks, next, next+1)
	}
	return before
}

// own returns a chunk that the editor may change.
func (e *editor) own(i int) *chunk {
	if !e.copied {
		e.t.chunks = append(make([]*chunk, 0, len(e.t.chunks)+1), e.t.chunks...)
		e.copied = true
	}
	if c := e.t.chunks[i]; c.owner == e.number {
		return c
	}
	c := &chunk{owner: e.number, items: append(make([]*storage.Item, 0, chunkSize), e.t.chunks[i].items...)}
	e.t.chunks[i] = c
	return c
}
