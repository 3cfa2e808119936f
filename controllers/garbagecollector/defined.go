package garbagecollector

import (
	"context"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
)

// kinds are those that users have defined. It is safe for concurrent use.
type kinds struct {
	mu   sync.RWMutex
	rows map[schema.GroupKind]*api.Resource
}

func newKinds() *kinds { return &kinds{rows: map[schema.GroupKind]*api.Resource{}} }

// lookup returns the row of a kind, or nil.
func (k *kinds) lookup(gk schema.GroupKind) *api.Resource {
	if k == nil {
		return nil
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.rows[gk]
}

// set makes a row known, or forgets the kind with nil.
func (k *kinds) set(gk schema.GroupKind, r *api.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r == nil {
		delete(k.rows, gk)
	} else {
		k.rows[gk] = r
	}
}

// definitions feeds the graph with the kinds that users define, for as long as
// they are defined.
type definitions struct {
	c   *Controller
	ctx context.Context //nolint:containedctx // of the controller's run

	mu      sync.Mutex // guards the fields below
	running map[string]*defined
	stopped bool
}

// defined is a kind that is watched.
type defined struct {
	row    *api.Resource
	sink   *sink
	cancel context.CancelFunc
	done   chan struct{}
}

// watchDefined begins to watch the kinds that users define. stop ends it, and
// waits.
func (c *Controller) watchDefined(ctx context.Context) (reg *informers.Registration, stop func()) {
	d := &definitions{c: c, ctx: ctx, running: map[string]*defined{}}
	reg = informers.For[*apiextensionsv1.CustomResourceDefinition](c.cfg.Factory).AddHandler(informers.Handler[*apiextensionsv1.CustomResourceDefinition]{
		Add:    func(crd *apiextensionsv1.CustomResourceDefinition, _ bool) { d.observe(crd) },
		Update: func(_, crd *apiextensionsv1.CustomResourceDefinition) { d.observe(crd) },
		Delete: func(crd *apiextensionsv1.CustomResourceDefinition) { d.gone(crd.Name) },
	})
	return reg, func() {
		reg.Remove()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stopped = true
		for _, r := range d.running {
			r.cancel()
			<-r.done
		}
	}
}

// observe watches the kind of a definition, in the version that is best now.
func (d *definitions) observe(crd *apiextensionsv1.CustomResourceDefinition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	row := api.Defined(crd)
	if have := d.running[crd.Name]; have != nil && row != nil && have.row.GVR() == row.GVR() && have.row.Kind == row.Kind {
		return
	}
	d.end(crd.Name)
	if row == nil {
		return
	}
	d.c.graph.kinds.set(row.GVK().GroupKind(), row)
	ctx, cancel := context.WithCancel(d.ctx)
	s := &sink{c: d.c, row: row, known: map[informers.Key]types.UID{}, synced: make(chan struct{})}
	r := &defined{row: row, sink: s, cancel: cancel, done: make(chan struct{})}
	d.running[crd.Name] = r
	refl := informers.NewReflector(informers.ReflectorConfig[*metav1.PartialObjectMetadata]{
		Source: informers.FromClient(client.Metadata(d.c.cfg.REST, row), "", "", ""), Sink: s,
		Log: d.c.cfg.Log.With().Str("resource", row.Plural).Logger(),
	})
	go func() {
		defer close(r.done)
		refl.Run(ctx) //nolint:errcheck // ends with ctx only
	}()
}

// gone ends the kind of a definition that is gone.
func (d *definitions) gone(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(name)
}

// end stops to watch the kind of a definition: its objects are gone. d.mu is
// held.
func (d *definitions) end(name string) {
	r := d.running[name]
	if r == nil {
		return
	}
	delete(d.running, name)
	r.cancel()
	<-r.done
	d.c.graph.kinds.set(r.row.GVK().GroupKind(), nil)
	for _, uid := range r.sink.known {
		d.c.gone(uid)
	}
}

// releaseByMerge is release for kinds that do not know how lists merge.
func (c *Controller) releaseByMerge(ctx context.Context, n node, uids []types.UID) error {
	obj, err := c.get(ctx, n.row, n.namespace, n.name, n.uid)
	if err != nil || obj == nil {
		return err
	}
	left := []metav1.OwnerReference{}
	for _, ref := range obj.OwnerReferences {
		keep := true
		for _, uid := range uids {
			keep = keep && ref.UID != uid
		}
		if keep {
			left = append(left, ref)
		}
	}
	return c.patchMeta(ctx, n, obj, map[string]any{"ownerReferences": left})
}
