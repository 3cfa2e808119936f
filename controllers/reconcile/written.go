package reconcile

import (
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Patience is how long a loop waits for the cache to show what it has written
// itself, before it goes on with what the cache shows.
const Patience = 5 * time.Second

// Written remembers the revisions that a loop has written, so that it does not
// plan from a cache that does not show them yet: such a plan would only meet a
// conflict. It is safe for concurrent use.
type Written struct {
	mu sync.Mutex
	at map[types.UID]written // guarded by mu
}

type written struct {
	revision uint64
	until    time.Time
}

// Note remembers an object as the server has answered it.
func (w *Written) Note(obj metav1.Object) {
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[types.UID]written{}
	}
	w.at[obj.GetUID()] = written{revision: n, until: time.Now().Add(Patience)}
}

// Stale tells whether the object, from the cache, is older than what was
// written. The cache will show that, and the object is then looked at again.
func (w *Written) Stale(obj metav1.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	x, ok := w.at[obj.GetUID()]
	if !ok {
		return false
	}
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err == nil && n < x.revision && time.Now().Before(x.until) {
		return true
	}
	delete(w.at, obj.GetUID())
	return false
}

// Missing tells whether an object that was written is not in the cache at all
// yet, given what the cache has under its name.
func (w *Written) Missing(uid types.UID, inCache bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	x, ok := w.at[uid]
	if !ok {
		return false
	}
	if !inCache && time.Now().Before(x.until) {
		return true
	}
	if !inCache {
		delete(w.at, uid)
	}
	return false
}

// Forget drops what is known of an object that is gone.
func (w *Written) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.at, uid)
}
