package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/storage"
)

// A roleFeed has an index of roles follow the storage. It reads the store
// itself and not the API: whoever asks the API has to be authorized first.
type roleFeed struct {
	store storage.Store
	index *authz.RoleIndex
	log   zerolog.Logger
}

// feedRetry is the time between tries when the storage is away.
const feedRetry = 200 * time.Millisecond

func roleRows() []*api.Resource {
	var rows []*api.Resource
	for _, plural := range []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"} {
		rows = append(rows, api.ByGVR(rbacv1.GroupName, "v1", plural))
	}
	return rows
}

// run follows until ctx is done.
func (f *roleFeed) run(ctx context.Context) error {
	var all, first sync.WaitGroup
	for _, row := range roleRows() {
		first.Add(1)
		all.Go(func() { f.follow(ctx, row, sync.OnceFunc(first.Done)) })
	}
	all.Go(func() {
		first.Wait()
		if ctx.Err() == nil {
			f.index.Loaded()
		}
	})
	all.Wait()
	return ctx.Err()
}

// follow follows one kind. It calls loaded when all objects are in the index,
// or will not be.
func (f *roleFeed) follow(ctx context.Context, row *api.Resource, loaded func()) {
	defer loaded()
	known := map[string]struct{}{}
	for {
		err := f.once(ctx, row, known, loaded)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, storage.ErrCompacted) {
			continue
		}
		f.log.Warn().Err(err).Str("resource", row.Plural).Msg("roles are not followed for a moment")
		select {
		case <-ctx.Done():
			return
		case <-time.After(feedRetry):
		}
	}
}

// once lists and watches until something fails. Known are the keys that are in
// the index.
func (f *roleFeed) once(ctx context.Context, row *api.Resource, known map[string]struct{}, loaded func()) error {
	list, err := f.store.List(ctx, row.Prefix(""), storage.ListOptions{Match: storage.NotOlderThan})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	gone := make(map[string]struct{}, len(known))
	for k := range known {
		gone[k] = struct{}{}
	}
	for i := range list.Items {
		delete(gone, list.Items[i].Key)
		f.put(row, known, &list.Items[i])
	}
	for k := range gone {
		f.remove(row, known, k)
	}
	loaded()
	w, err := f.store.Watch(ctx, row.Prefix(""), storage.WatchOptions{After: list.Revision, NoPrev: true})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Close()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		for i := range events {
			if e := &events[i]; e.Type == storage.Delete {
				f.remove(row, known, e.Item.Key)
			} else {
				f.put(row, known, e.Item)
			}
		}
	}
}

// put puts an object into the index. One that cannot be read allows nothing.
func (f *roleFeed) put(row *api.Resource, known map[string]struct{}, item *storage.Item) {
	obj := row.New()
	if err := api.DecodeStored(item.Value, obj); err != nil {
		f.log.Error().Err(err).Str("key", item.Key).Msg("role or binding is damaged, and does not count")
		f.remove(row, known, item.Key)
		return
	}
	known[item.Key] = struct{}{}
	f.index.Put(obj)
}

func (f *roleFeed) remove(row *api.Resource, known map[string]struct{}, key string) {
	delete(known, key)
	namespace, name := "", strings.TrimPrefix(key, row.Storage)
	if row.Namespaced {
		namespace, name, _ = strings.Cut(name, "/")
	}
	f.index.Remove(row.New(), namespace, name)
}
