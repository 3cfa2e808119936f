package garbagecollector

import (
	"context"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
)

// A syncer tells when the first copy of a kind is in the graph.
type syncer interface {
	WaitForSync(ctx context.Context) error
}

// watch feeds the graph with every kind that can be listed, watched and
// deleted. Kinds that other loops copy anyway come from the shared informers;
// of the others only the metadata is read and nothing is kept.
func (c *Controller) watch(ctx context.Context, wg *sync.WaitGroup) (all []syncer, stop func()) {
	var regs []*informers.Registration
	for _, r := range api.Resources() {
		if r.StoredAs != nil || (r.Group == "" && r.Plural == "events") {
			continue // the same objects under another name; nobody owns events
		}
		if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") || !slices.Contains(r.Verbs, "delete") {
			continue
		}
		if reg := c.shared(r); reg != nil {
			regs = append(regs, reg)
			all = append(all, reg)
			continue
		}
		s := &sink{c: c, row: r, known: map[informers.Key]types.UID{}, synced: make(chan struct{})}
		all = append(all, s)
		refl := informers.NewReflector(informers.ReflectorConfig[*metav1.PartialObjectMetadata]{
			Source: informers.FromClient(client.Metadata(c.cfg.REST, r), "", "", ""), Sink: s,
			Log: c.cfg.Log.With().Str("resource", r.Plural).Logger(),
		})
		wg.Go(func() { refl.Run(ctx) }) //nolint:errcheck // ends with ctx only
	}
	return all, func() {
		for _, reg := range regs {
			reg.Remove()
		}
	}
}

// shared returns a handler at the shared informer of a kind that other loops
// use, or nil.
func (c *Controller) shared(r *api.Resource) *informers.Registration {
	switch r.New().(type) {
	case *corev1.Pod:
		return handle[*corev1.Pod](c, r)
	case *corev1.Node:
		return handle[*corev1.Node](c, r)
	case *corev1.Namespace:
		return handle[*corev1.Namespace](c, r)
	case *appsv1.ReplicaSet:
		return handle[*appsv1.ReplicaSet](c, r)
	case *appsv1.Deployment:
		return handle[*appsv1.Deployment](c, r)
	case *coordinationv1.Lease:
		return handle[*coordinationv1.Lease](c, r)
	}
	return nil
}

func handle[T api.Object](c *Controller, r *api.Resource) *informers.Registration {
	return informers.For[T](c.cfg.Factory).AddHandler(informers.Handler[T]{
		Add: func(obj T, _ bool) { c.observe(r, obj) },
		Update: func(old, obj T) {
			if relevant(old, obj) {
				c.observe(r, obj)
			}
		},
		Delete: func(obj T) { c.gone(obj.GetUID()) },
	})
}

// relevant tells whether a change means anything to the graph. Most do not.
func relevant(old, obj metav1.Object) bool {
	return !slices.Equal(owners(old), owners(obj)) || !slices.Equal(old.GetFinalizers(), obj.GetFinalizers()) ||
		(old.GetDeletionTimestamp() == nil) != (obj.GetDeletionTimestamp() == nil)
}

// A sink puts what a Reflector reads into the graph. It remembers nothing but
// UIDs, to find out what has gone when there is a new list.
type sink struct {
	c      *Controller
	row    *api.Resource
	known  map[informers.Key]types.UID
	synced chan struct{}
	once   sync.Once
}

// Replace takes a new list.
func (s *sink) Replace(items []*metav1.PartialObjectMetadata) {
	now := make(map[informers.Key]types.UID, len(items))
	for _, m := range items {
		now[informers.KeyOf(m)] = m.UID
	}
	for k, uid := range s.known {
		if now[k] != uid {
			s.c.gone(uid)
		}
	}
	s.known = now
	for _, m := range items {
		s.c.observe(s.row, m)
	}
	s.once.Do(func() { close(s.synced) })
}

// Apply takes a change.
func (s *sink) Apply(typ watch.EventType, m *metav1.PartialObjectMetadata) {
	k := informers.KeyOf(m)
	if uid, ok := s.known[k]; ok && uid != m.UID {
		s.c.gone(uid)
	}
	if typ == watch.Deleted {
		delete(s.known, k)
		s.c.gone(m.UID)
		return
	}
	s.known[k] = m.UID
	s.c.observe(s.row, m)
}

// WaitForSync waits for the first list.
func (s *sink) WaitForSync(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
