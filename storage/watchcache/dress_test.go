package watchcache_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/memory"
	"github.com/proa-project/proa/storage/watchcache"
)

// decorate puts "@revision" behind a value, in place of one that is there.
func decorate(value []byte, revision int64) []byte {
	plain, _, _ := strings.Cut(string(value), "@")
	return []byte(plain + "@" + strconv.FormatInt(revision, 10))
}

// extract makes "node=n1,app=web" to fields and labels; "bad" is an error.
func extract(_ string, value []byte) (storage.Fields, error) {
	if strings.Contains(string(value), "@") {
		return storage.Fields{}, errors.New("a decorated value was handed to extract")
	}
	if string(value) == "bad" {
		return storage.Fields{}, errors.New("bad value")
	}
	f := storage.Fields{}
	for part := range strings.SplitSeq(string(value), ",") {
		if k, v, ok := strings.Cut(part, "="); ok && k == "node" {
			f.Fields = append(f.Fields, [2]string{"spec.nodeName", v})
		} else if ok {
			f.Labels = append(f.Labels, [2]string{k, v})
		}
	}
	return f, nil
}

func dressed(t *testing.T, inner storage.Store) *watchcache.Cache {
	t.Helper()
	return open(t, watchcache.Config{Store: inner, Decorate: decorate, Extract: extract})
}

// show is an item on one line.
func show(i *storage.Item) string {
	if i == nil {
		return "-"
	}
	fields := "none"
	if i.Fields != nil {
		fields = fmt.Sprint(i.Fields.Labels, i.Fields.Fields)
	}
	return fmt.Sprintf("%s: %s at %d, %s", i.Key, i.Value, i.Revision, fields)
}

func TestDressedReads(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := memory.New(memory.Config{})
	const key = "/registry/pods/a/x"
	must(m.Create(ctx, key, []byte("app=web,node=n1"), 0)) // 2, before the cache is there
	c := dressed(t, m)
	must(c.Update(ctx, key, []byte("app=web,node=n2"), 2, 0))      // 3
	must(c.Create(ctx, "/registry/pods/a/y", []byte("bad"), 0))    // 4
	must(c.Create(ctx, "/proa/chunk", []byte("app=none"), 0))      // 5
	must(c.Create(ctx, "/registry/nodes/n", []byte("plain"), 0))   // 6
	must(c.Update(ctx, "/registry/nodes/n", []byte("more"), 6, 0)) // 7

	show1 := func(what string, match storage.Match, revision int64, want string) {
		t.Helper()
		item, err := c.Get(ctx, key, storage.GetOptions{Match: match, Revision: revision})
		if err != nil {
			t.Fatal(err)
		}
		if got := show(&item); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	now := key + ": app=web,node=n2@3 at 3, [[app web]] [[spec.nodeName n2]]"
	show1("fresh", storage.Fresh, 0, now)
	show1("exact, unchanged since", storage.Exact, 3, now)
	show1("exact, from the store below", storage.Exact, 2, key+": app=web,node=n1@2 at 2, [[app web]] [[spec.nodeName n1]]")

	for prefix, want := range map[string][]string{
		"/registry/pods/": {now, "/registry/pods/a/y: bad@4 at 4, [] []"},
		"/registry/":      {"/registry/nodes/n: more@7 at 7, [] []", now, "/registry/pods/a/y: bad@4 at 4, [] []"},
		"/":               {"/proa/chunk: app=none at 5, none", "/registry/nodes/n: more@7 at 7, [] []", now, "/registry/pods/a/y: bad@4 at 4, [] []"},
		"/proa/":          {"/proa/chunk: app=none at 5, none"},
	} {
		for _, opts := range []storage.ListOptions{{}, {Match: storage.Exact, Revision: 7}} {
			l, err := c.List(ctx, prefix, opts)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for i := range l.Items {
				got = append(got, show(&l.Items[i]))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("List(%q, %+v) (-want +got):\n%s", prefix, opts, diff)
			}
		}
	}
	// Filters see fields whoever answers.
	for _, opts := range []storage.ListOptions{{}, {Match: storage.Exact, Revision: 3}, {Match: storage.Exact, Revision: 2}} {
		opts.Filter = func(i *storage.Item) bool { return i.Fields != nil && i.Fields.Labels.Get("app") == "web" }
		for _, prefix := range []string{"/registry/pods/", "/"} {
			if l, err := c.List(ctx, prefix, opts); err != nil || len(l.Items) != 1 || l.Items[0].Fields == nil {
				t.Errorf("List(%q) by label, %+v: %d items, error %v", prefix, opts.Revision, len(l.Items), err)
			}
		}
	}

	_, err := c.Update(ctx, key, nil, 2, 0)
	var conflict *storage.ConflictError
	if !errors.As(err, &conflict) || show(&conflict.Current) != now {
		t.Errorf("conflict %v", err)
	}
}

func must(_ int64, err error) {
	if err != nil {
		panic(err)
	}
}

// TestDressedEvents checks what events carry, for a watcher that the ring
// serves, and for one that the history of the store serves.
func TestDressedEvents(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := memory.New(memory.Config{})
	old := dressed(t, m)
	const key = "/registry/pods/a/x"
	must(old.Create(ctx, key, []byte("node=n1"), 0))    // 2
	must(old.Update(ctx, key, []byte("node=n2"), 2, 0)) // 3
	must(old.Update(ctx, key, []byte("node=n1"), 3, 0)) // 4
	must(old.Delete(ctx, key, 4))                       // 5
	must(old.Create(ctx, "/registry/pods/a/y", []byte("node=n1"), 0))
	young := open(t, watchcache.Config{Store: keepOpen{m}, Decorate: decorate, Extract: extract})
	if young.Revision() != 6 {
		t.Fatalf("the young cache begins at %d", young.Revision())
	}
	want := []string{
		"put /registry/pods/a/x: node=n1@2 at 2, [] [[spec.nodeName n1]] | - | -",
		"put /registry/pods/a/x: node=n2@3 at 3, [] [[spec.nodeName n2]] | /registry/pods/a/x: node=n1@2 at 2, [] [[spec.nodeName n1]] | /registry/pods/a/x: node=n1@3 at 3, [] [[spec.nodeName n1]]",
		"put /registry/pods/a/x: node=n1@4 at 4, [] [[spec.nodeName n1]] | /registry/pods/a/x: node=n2@3 at 3, [] [[spec.nodeName n2]] | /registry/pods/a/x: node=n2@4 at 4, [] [[spec.nodeName n2]]",
		"delete /registry/pods/a/x: node=n1@5 at 5, [] [[spec.nodeName n1]] | /registry/pods/a/x: node=n1@4 at 4, [] [[spec.nodeName n1]] | /registry/pods/a/x: node=n1@5 at 5, [] [[spec.nodeName n1]]",
		"put /registry/pods/a/y: node=n1@6 at 6, [] [[spec.nodeName n1]] | - | -",
		"put /registry/pods/a/z: node=n1@7 at 7, [] [[spec.nodeName n1]] | - | -",
	}
	must(old.Create(ctx, "/registry/pods/a/z", []byte("node=n1"), 0)) // 7
	onNode := func(i *storage.Item) bool { return i.Fields != nil && i.Fields.Fields.Get("spec.nodeName") == "n1" }
	for name, c := range map[string]*watchcache.Cache{"ring": old, "history": young} {
		for _, filter := range []func(*storage.Item) bool{nil, onNode} {
			for _, prefix := range []string{"/registry/pods/", "/registry/pods/a/", "/registry/"} {
				w, err := c.Watch(ctx, prefix, storage.WatchOptions{After: 1, Filter: filter})
				if err != nil {
					t.Fatal(err)
				}
				got := []string{}
				for len(got) < len(want) {
					events, err := w.Next(ctx)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range events {
						kind := map[storage.EventType]string{storage.Put: "put", storage.Delete: "delete"}[e.Type]
						got = append(got, fmt.Sprintf("%s %s | %s | %s", kind, show(e.Item), show(e.Prev), show(e.Left())))
						if e.Left() != e.Left() { //nolint:staticcheck // that it is made once is the point
							t.Errorf("%s: Left is made twice", name)
						}
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %q, filter %t (-want +got):\n%s", name, prefix, filter != nil, diff)
				}
				w.Close()
			}
		}
	}
}

// keepOpen is a store that is not closed.
type keepOpen struct{ storage.Store }

func (keepOpen) Close() error { return nil }
