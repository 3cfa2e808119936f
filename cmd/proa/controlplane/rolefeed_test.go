package controlplane

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
)

// flaky fails a number of lists and watches, and ends watches when told to.
type flaky struct {
	storage.Store
	lists, watches atomic.Int32
	cut            chan struct{} // ends one watch of rolebindings
}

func (f *flaky) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.List, error) {
	if f.lists.Add(-1) >= 0 {
		return storage.List{}, storage.ErrUnavailable
	}
	return f.Store.List(ctx, prefix, o)
}

func (f *flaky) Watch(ctx context.Context, prefix string, o storage.WatchOptions) (storage.Watcher, error) {
	if f.watches.Add(-1) >= 0 {
		return nil, storage.ErrUnavailable
	}
	w, err := f.Store.Watch(ctx, prefix, o)
	if err != nil || prefix != "/registry/rolebindings/" {
		return w, err
	}
	return &cuttable{Watcher: w, cut: f.cut}, nil
}

type cuttable struct {
	storage.Watcher
	cut chan struct{}
}

func (c *cuttable) Next(ctx context.Context) ([]storage.Event, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-c.cut:
			cancel(storage.ErrCompacted)
		case <-stop:
		}
	}()
	events, err := c.Watcher.Next(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	return events, err
}

func TestRoleFeed(t *testing.T) {
	store := &flaky{Store: memory.New(memory.Config{}), cut: make(chan struct{})}
	store.lists.Store(2)
	store.watches.Store(2)
	t.Cleanup(func() { store.Close() })
	ctx := t.Context()
	revision := map[string]int64{}
	put := func(o api.Object) {
		t.Helper()
		row := api.ByType(o)
		value, err := api.EncodeStored(o)
		if err != nil {
			t.Fatal(err)
		}
		key := row.Key(o.GetNamespace(), o.GetName())
		if revision[key] == 0 {
			revision[key], err = store.Create(ctx, key, value, 0)
		} else {
			revision[key], err = store.Update(ctx, key, value, revision[key], 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	remove := func(o api.Object) {
		t.Helper()
		key := api.ByType(o).Key(o.GetNamespace(), o.GetName())
		if _, err := store.Delete(ctx, key, revision[key]); err != nil {
			t.Fatal(err)
		}
		revision[key] = 0
	}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "x"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}
	bound := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "x"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}}
	cluster := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "y"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/y"}}}}
	everywhere := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "y"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "y"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}}
	put(role)
	put(bound)

	a := &authz.RBAC{Roles: authz.NewRoleIndex()}
	feed := &roleFeed{store: store, index: a.Roles, log: zerolog.Nop()}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- feed.run(running) }()
	defer func() {
		stop()
		if err := <-done; err == nil {
			t.Error("ended without a reason")
		}
	}()

	pods := request.Info{Verb: "get", Resource: api.ByGVR("", "v1", "pods"), Namespace: "shop", Name: "p"}
	path := request.Info{Verb: "get", Path: "/y"}
	allowed := func(i request.Info) bool {
		d, _, err := a.Authorize(ctx, &request.User{Name: "ann"}, &i) // waits until the index is loaded
		if err != nil {
			t.Fatal(err)
		}
		return d == authz.Allow
	}
	becomes := func(what string, i request.Info, want bool) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for allowed(i) != want {
			select {
			case <-ctx.Done():
				t.Fatal(what)
			case <-tick.C:
			}
		}
	}
	if !allowed(pods) || allowed(path) {
		t.Error("what was there does not count at once")
	}
	put(cluster)
	put(everywhere)
	becomes("a new binding", path, true)
	remove(cluster)
	becomes("a role that is gone", path, false)
	remove(bound)
	becomes("a binding that is gone", pods, false)
	put(bound)
	becomes("a binding that is back", pods, true)
	key := api.ByType(role).Key("shop", "x")
	if _, err := store.Update(ctx, key, []byte(`{"rules":7}`), revision[key], 0); err != nil {
		t.Fatal(err)
	}
	becomes("a role that is damaged", pods, false)

	// What goes while nobody looks is found out.
	put2, err := store.Get(ctx, key, storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	revision[key] = put2.Revision
	put(role)
	becomes("a role that is repaired", pods, true)
	store.cut <- struct{}{}
	remove(bound)
	becomes("a binding that is gone meanwhile", pods, false)
}
