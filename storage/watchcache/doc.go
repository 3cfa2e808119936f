// Package watchcache is a Store in front of another that answers reads and
// watches from memory, as bytes that are ready to be sent.
//
// # What it holds
//
// Of every item below Config.Prefix it holds the value as Config.Decorate made
// it (which is to carry its own revision) and the Fields that Config.Extract
// found, once, when the item came in. It never holds a decoded object. All that
// comes out for such keys is decorated: Get, List, Item, Prev and Left of
// events, and the item in a ConflictError. Keys elsewhere pass through as they
// are.
//
// # How it works
//
// One goroutine follows the store below with one watch and makes a new state
// for every batch of events. A state is immutable and shares with the one
// before it all that has not changed, so a reader loads a pointer and needs no
// lock, and a list is a copy of a few words per item.
//
// Each resource has its own bucket: a tree of items and a ring of recent
// events. A watcher is a cursor in the ring: it has no queue and no goroutine,
// and nobody waits for it. An event is made once and shared by all watchers.
// If the ring has moved on, the watcher ends with ErrCompacted.
//
// # Fresh reads
//
// A fresh read asks the store for its revision, which is cheap, waits until
// the cache has come that far, and then reads the cache. If that does not
// happen within Config.FreshWait the read goes to the store. A read as of an
// Exact revision is answered from memory if nothing of its resource has
// changed since, or if a list was cut there lately; otherwise by the store.
//
// # When the store fails
//
// While the store cannot be reached, reads of what is at hand (NotOlderThan)
// and watchers go on; fresh reads and writes fail with the store's error. The
// watch resumes from its revision. If the store has forgotten that, the cache
// lists again, and all its watchers end with ErrCompacted.
//
// A watch that begins before what the ring remembers, after a restart or by a
// slow reader, is served from the history of the store until it meets the
// ring. So a restart does not make every client list again.
package watchcache
