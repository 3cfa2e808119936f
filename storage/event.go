package storage

import "sync"

// An Event is one change of one key. Events are shared between watchers.
type Event struct {
	Type EventType
	// Item is the state after the change. For Delete it is the last state
	// before, with the revision of the removal.
	Item *Item
	// Prev is the state before the change, nil for a new key. A Store that
	// cannot know it (history from before a compaction) leaves it nil.
	Prev *Item

	left *left // nil in events of a Store that does not decorate
}

// Revision returns the revision of the change.
func (e *Event) Revision() int64 { return e.Item.Revision }

// Left returns the last state before the change with the revision of the
// change: what a reader is shown as removed when a change makes the item leave
// what the reader selects. For Delete it is Item. It is nil if there was no
// state before. It is made on first use and shared by all copies of the event.
func (e *Event) Left() *Item {
	switch {
	case e.Type == Delete:
		return e.Item
	case e.Prev == nil:
		return nil
	case e.left == nil:
		item := *e.Prev
		item.Revision = e.Item.Revision
		return &item
	}
	e.left.once.Do(func() {
		item := *e.Prev
		item.Revision = e.Item.Revision
		item.Value = e.left.decorate(item.Value, item.Revision)
		e.left.item = &item
	})
	return e.left.item
}

// ShareLeft is for Stores whose values carry their revision: decorate returns
// a copy of value that carries revision. Call it before the event is shared.
func (e *Event) ShareLeft(decorate func(value []byte, revision int64) []byte) {
	if e.Type == Put && e.Prev != nil {
		e.left = &left{decorate: decorate}
	}
}

// left is the state that Event.Left makes on demand.
type left struct {
	once     sync.Once
	decorate func(value []byte, revision int64) []byte
	item     *Item
}
