// Package storage is the contract between Proa and whatever keeps its state:
// keys, bytes, revisions, events and errors. It knows no kind.
//
// # What a Store is
//
// A Store is a flat, ordered map from keys to bytes with one store-wide clock.
// Every successful write moves the clock by one or more and stamps the written
// key with the new value. The clock is what Kubernetes calls resourceVersion;
// for etcd it is the mod revision. An empty store is at revision 1 or later: 0
// means that no revision is meant.
//
// Values that a Store hands out are shared and must never be modified. Values
// that a caller hands in belong to the Store from then on.
//
// # Reading
//
// A read says how old its answer may be (Match): Fresh sees every write that
// was acknowledged before, NotOlderThan a revision that the caller has seen,
// Exact the past as of a revision. A list that is cut by a Limit goes on with
// Exact at its Revision and After its last key, so that all pages show one
// moment.
//
// # Writing
//
// Create wants the key absent, Update and Delete want it at a revision. There
// is no other write: who loses a race reads again and decides again.
//
//	item, err := s.Get(ctx, key, storage.GetOptions{})
//	for err == nil {
//		_, err = s.Update(ctx, key, change(item.Value), item.Revision, 0)
//		var conflict *storage.ConflictError
//		if !errors.As(err, &conflict) {
//			break
//		}
//		item, err = conflict.Current, nil
//	}
//
// # Watching
//
// A list and a watch After its revision together miss nothing:
//
//	list, err := s.List(ctx, prefix, storage.ListOptions{})
//	w, err := s.Watch(ctx, prefix, storage.WatchOptions{After: list.Revision})
//	defer w.Close()
//	for {
//		events, err := w.Next(ctx)
//		switch {
//		case errors.Is(err, storage.ErrCompacted): // too slow: list again
//		case err != nil: // the context, ErrClosed, or ErrUnavailable: watch again After the last revision
//		}
//		// ... w.Progress() is where to go on from
//	}
//
// A watcher with a Filter also gets the change with which an item begins or
// stops to match. The owner tells by trying Item and Prev: if only Prev
// matches, the item has left, and Event.Left is what to show of it.
//
// # Errors
//
// Test with errors.Is for the sentinels. ErrUnavailable comes within seconds
// and says nothing about whether a write has happened; the caller may repeat
// what is safe to repeat.
//
// Every Store passes the suite in storagetest. There are memory, etcd, and
// watchcache, which serves reads and watches of another Store from memory.
package storage
