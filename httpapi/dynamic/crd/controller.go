package crd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/storage"
)

// retry is the time after which what could not be done is tried again, such as
// the removal of a definition whose objects have finalizers.
const retry = time.Second

// A Server is what the controller wants of the API server.
type Server interface {
	// ChangeDefinition changes a stored definition, unless change returns
	// false. A definition that is gone is no error.
	ChangeDefinition(ctx context.Context, name string, change func(*apiextensionsv1.CustomResourceDefinition) bool) error
	// DeleteObjects deletes all objects of a kind and returns how many are
	// left, because something has to be done before they go.
	DeleteObjects(ctx context.Context, k *dynamic.Kind) (left int, err error)
}

// Config says what a Controller works with. All but Converters and Fallback must be set.
type Config struct {
	Store  storage.Store
	Table  *dynamic.Table
	Server Server
	// Converters are who converts objects between versions; where there is none,
	// apiVersion is set and nothing else. nil is for none at all.
	Converters *Converters
	// Fallback is asked where Converters have none; nil is nobody. What it
	// converts is not remembered, for it may come and go without a word.
	Fallback interface {
		Converter
		Has(crdName string) bool
	}
	Log zerolog.Logger
}

// A Controller keeps a table in step with the stored definitions.
type Controller struct {
	cfg   Config
	row   *api.Resource
	ready atomic.Bool

	// The fields below belong to the goroutine of Run.
	defs map[string]*definition // by name
}

// A definition is one that is stored, and what has been made of it.
type definition struct {
	crd   *apiextensionsv1.CustomResourceDefinition
	kinds []*dynamic.Kind // that are served
	from  made            // what kinds were made of
	fault string          // why they are not served
	// before are kinds that are no longer served, but may have writes under way.
	before []*dynamic.Kind
}

// made names what kinds are made of.
type made struct {
	uid        types.UID
	generation int64
	deleting   bool
	names      string
}

// New returns a controller.
func New(cfg Config) *Controller {
	if cfg.Converters == nil {
		cfg.Converters = &Converters{}
	}
	return &Controller{
		cfg: cfg, defs: map[string]*definition{},
		row: api.ByGVR(apiextensionsv1.GroupName, "v1", "customresourcedefinitions"),
	}
}

// Ready returns an error until the definitions that were there at the start
// are served.
func (c *Controller) Ready() error {
	if !c.ready.Load() {
		return errors.New("definitions have not been read")
	}
	return nil
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	for {
		err := c.follow(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.cfg.Log.Info().Err(err).Msg("reading definitions again")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retry):
		}
	}
}

// follow reads the definitions and then their changes.
func (c *Controller) follow(ctx context.Context) error {
	list, err := c.cfg.Store.List(ctx, c.row.Storage, storage.ListOptions{})
	if err != nil {
		return fmt.Errorf("list definitions: %w", err)
	}
	seen := map[string]bool{}
	for i := range list.Items {
		seen[c.put(&list.Items[i])] = true
	}
	for name := range c.defs {
		if !seen[name] {
			c.drop(name)
		}
	}
	w, err := c.cfg.Store.Watch(ctx, c.row.Storage, storage.WatchOptions{After: list.Revision})
	if err != nil {
		return fmt.Errorf("watch definitions: %w", err)
	}
	defer w.Close()
	again := c.reconcile(ctx)
	c.ready.Store(true)
	for {
		if err := c.next(ctx, w, again); err != nil {
			return err
		}
		again = c.reconcile(ctx)
	}
}

// next waits for changes and takes them in; with again it does not wait for
// long.
func (c *Controller) next(ctx context.Context, w storage.Watcher, again bool) error {
	if c.refresh() {
		return nil // the token of that may be spent already
	}
	patience := 24 * time.Hour
	if again {
		patience = retry
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	var waker sync.WaitGroup
	defer waker.Wait()
	defer cancel()
	waker.Go(func() {
		select {
		case <-c.cfg.Converters.waker():
			cancel()
		case <-waiting.Done():
		}
	})
	events, err := w.Next(waiting)
	c.refresh()
	if err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			return nil // it is time
		}
		return err
	}
	for i := range events {
		if e := &events[i]; e.Type == storage.Delete {
			c.drop(e.Item.Key[len(c.row.Storage):])
		} else {
			c.put(e.Item)
		}
	}
	return nil
}

// refresh has the definitions made again whose converter has changed. It
// reports whether there are any.
func (c *Controller) refresh() (some bool) {
	for name := range c.cfg.Converters.take() {
		if d := c.defs[name]; d != nil {
			d.from, some = made{}, true
		}
	}
	return some
}

// put takes in a definition and returns its name.
func (c *Controller) put(item *storage.Item) string {
	name := item.Key[len(c.row.Storage):]
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := api.DecodeStored(item.Value, crd); err != nil {
		c.cfg.Log.Error().Err(err).Str("definition", name).Msg("definition cannot be read")
		return name
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	if d := c.defs[name]; d != nil {
		d.crd = crd
	} else {
		c.defs[name] = &definition{crd: crd}
	}
	return name
}

// drop ends the kinds of a definition that is gone.
func (c *Controller) drop(name string) {
	delete(c.defs, name)
	c.serve(name, nil) //nolint:errcheck // to serve less is always possible
}

func (c *Controller) serve(name string, kinds []*dynamic.Kind) error {
	return c.cfg.Table.SetStored("crd/"+name, kinds)
}

// reconcile makes true what the definitions say. It reports whether something
// is left that no change of a definition will tell of.
func (c *Controller) reconcile(ctx context.Context) (again bool) {
	for _, name := range c.order() {
		d := c.defs[name]
		if err := c.one(ctx, name, d); err != nil && ctx.Err() == nil {
			c.cfg.Log.Error().Err(err).Str("definition", name).Msg("definition not reconciled")
			again = true
		}
		again = again || d.crd.DeletionTimestamp != nil
	}
	return again
}

// order returns the names of the definitions: who has names keeps them, and of
// the others the older comes first.
func (c *Controller) order() []string {
	names := slices.Sorted(maps.Keys(c.defs))
	slices.SortStableFunc(names, func(a, b string) int {
		x, y := c.defs[a].crd, c.defs[b].crd
		return x.CreationTimestamp.Compare(y.CreationTimestamp.Time)
	})
	return names
}

// takenFor returns the names that other definitions of its group have.
func (c *Controller) takenFor(name string) *taken {
	t := newTaken()
	for other, d := range c.defs {
		if other != name && d.crd.Spec.Group == c.defs[name].crd.Spec.Group {
			t.claim(&d.crd.Status.AcceptedNames)
		}
	}
	for _, r := range api.Resources() {
		if r.Group == c.defs[name].crd.Spec.Group {
			t.claim(&apiextensionsv1.CustomResourceDefinitionNames{
				Plural: r.Plural, Singular: r.Singular, ShortNames: r.ShortNames, Kind: r.Kind, ListKind: r.Kind + "List",
			})
		}
	}
	return t
}

// one reconciles one definition.
func (c *Controller) one(ctx context.Context, name string, d *definition) error {
	t := c.takenFor(name)
	names, accepted := grant(d.crd, t)
	if accepted.Status == apiextensionsv1.ConditionTrue || isTrue(d.crd, apiextensionsv1.Established) {
		c.compile(name, d, &names)
	}
	served := len(d.kinds) > 0
	probe := d.crd.DeepCopy()
	if note(probe, t, served, d.fault) {
		var after *apiextensionsv1.CustomResourceDefinition
		err := c.cfg.Server.ChangeDefinition(ctx, name, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
			changed := note(crd, t, served, d.fault)
			after = crd.DeepCopy()
			return changed
		})
		if err != nil {
			return err
		}
		if after != nil {
			d.crd = after // the watch will tell the same
		}
	}
	if d.crd.DeletionTimestamp != nil && slices.Contains(d.crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return c.cleanUp(ctx, name, d)
	}
	return nil
}

// compile serves the kinds of a definition as it is now.
func (c *Controller) compile(name string, d *definition, names *apiextensionsv1.CustomResourceDefinitionNames) {
	now := made{d.crd.UID, d.crd.Generation, d.crd.DeletionTimestamp != nil, names.String()}
	if d.from == now {
		return
	}
	kinds, err := kindsOf(d.crd, names, c.converterOf)
	if err == nil {
		err = c.serve(name, kinds)
	}
	d.from = now
	if err == nil {
		d.before = slices.DeleteFunc(append(d.before, d.kinds...), (*dynamic.Kind).Idle)
	}
	if err == nil && now.deleting {
		for _, k := range d.before {
			k.Drain() // what it still creates has to be there to be deleted
		}
	}
	if err != nil {
		d.fault = err.Error()
		c.cfg.Log.Info().Err(err).Str("definition", name).Msg("definition is not served")
		return
	}
	d.kinds, d.fault = kinds, ""
}

// converterOf returns who converts the objects of a definition, or nil; lasting
// says that it is told when that changes.
func (c *Controller) converterOf(name string) (_ Converter, lasting bool) {
	if found := c.cfg.Converters.Get(name); found != nil {
		return found, true
	}
	if f := c.cfg.Fallback; f != nil && f.Has(name) {
		return f, false
	}
	return nil, c.cfg.Fallback == nil
}

// cleanUp deletes the objects of a definition, and then lets it go.
func (c *Controller) cleanUp(ctx context.Context, name string, d *definition) error {
	done := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse,
		Reason: "InstanceDeletionCompleted", Message: "removed all instances",
	}
	left := 0
	if len(d.kinds) == 0 {
		done.Reason, done.Message = "NeverEstablished", "resource was never established"
	} else {
		var err error
		if left, err = c.cfg.Server.DeleteObjects(ctx, d.kinds[0]); err != nil {
			done.Status, done.Reason = apiextensionsv1.ConditionTrue, "InstanceDeletionFailed"
			done.Message = "could not issue all deletes: " + err.Error()
			left = max(left, 1)
		} else if left > 0 {
			done.Status, done.Reason = apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress"
			done.Message = "CustomResource deletion is in progress"
		}
	}
	return c.cfg.Server.ChangeDefinition(ctx, name, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		if crd.UID != d.crd.UID || crd.DeletionTimestamp == nil {
			return false
		}
		changed := setCondition(crd, done)
		if left > 0 {
			return changed
		}
		n := len(crd.Finalizers)
		crd.Finalizers = slices.DeleteFunc(crd.Finalizers, func(f string) bool { return f == apiextensionsv1.CustomResourceCleanupFinalizer })
		return changed || len(crd.Finalizers) != n
	})
}
