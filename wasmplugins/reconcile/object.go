package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

func marshal(v any) ([]byte, error) { return json.Marshal(v) }

func labelsOf(o object) labels.Set { return o.GetLabels() }

func isBuiltin(r *api.Resource) bool { return api.ByGVR(r.Group, r.Version, r.Plural) != nil }

// reconcile makes true what the guest says of one object. It returns after what
// time to come back without a change, 0 for never.
func (c *cycle) reconcile(ctx context.Context, key informers.Key) (time.Duration, error) {
	o, ok := c.primary.copy.Get(key.Namespace, key.Name)
	if !ok {
		return 0, c.unselected(ctx, key)
	}
	g, running := c.l.handle.Running()
	finalizer := finalizerOf(c.l.handle.Name())
	has := slices.Contains(o.GetFinalizers(), finalizer)
	deleting := o.GetDeletionTimestamp() != nil
	switch {
	case deleting && !has:
		return 0, nil // what it owns goes with it
	case deleting || !running:
	case g.finalizer && !has:
		if err := c.l.keep(ctx); err != nil {
			return 0, err
		}
		var err error
		if o, err = c.setFinalizers(ctx, o, append(slices.Clone(o.GetFinalizers()), finalizer)); err != nil {
			return 0, fmt.Errorf("add the finalizer: %w", err)
		}
	case !g.finalizer && has:
		return 0, c.dropFinalizer(ctx, o)
	}
	a, err := c.ask(ctx, o, deleting)
	if err != nil {
		return 0, err
	}
	if deleting && a.Finalized {
		return 0, c.dropFinalizer(ctx, o)
	}
	if err := c.apply(ctx, o, a); err != nil {
		return 0, err
	}
	return time.Duration(a.RequeueAfterSeconds) * time.Second, nil
}

// ask asks the guest about an object.
func (c *cycle) ask(ctx context.Context, o object, deleting bool) (*answer, error) {
	encoded, err := marshal(o.Object)
	if err != nil {
		return nil, err
	}
	var body []byte
	owned := [][]byte{}
	for _, child := range c.children(o) {
		if body, err = marshal(child.object.Object); err != nil {
			return nil, err
		}
		owned = append(owned, body)
	}
	input, err := abi.ReconcileInput(encoded, owned, deleting)
	if err != nil {
		return nil, err
	}
	var a *answer
	_, err = c.l.handle.Use(ctx, func(g *guest) (engine.Usage, error) {
		return g.Ask(ctx, engine.Call{Seed: string(o.GetUID())}, input, func(reply []byte) error {
			var bad error
			a, bad = c.parse(reply, o)
			return bad
		})
	})
	if err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, fmt.Errorf("the module says: %s", a.Error)
	}
	return a, nil
}

// A child is an object that another owns.
type child struct {
	kind   *kind
	object object
}

// children returns what an object owns, by kind and name.
func (c *cycle) children(o object) []child {
	var out []child
	for _, k := range c.owned {
		list := k.copy.ByIndex(byOwner, string(o.GetUID()))
		slices.SortFunc(list, func(a, b object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
		for _, o := range list {
			out = append(out, child{k, o})
		}
	}
	return out
}

// apply makes an answer true: first what should be there, then what should not,
// then the status. What fails does not keep the rest from being tried.
func (c *cycle) apply(ctx context.Context, o object, a *answer) error {
	var errs []error
	keep := map[*kind]map[informers.Key]bool{}
	for i := range a.objects {
		w := &a.objects[i]
		if keep[w.kind] == nil {
			keep[w.kind] = map[informers.Key]bool{}
		}
		keep[w.kind][w.key] = true
		if err := c.ensure(ctx, o, w); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", w.kind.row.Kind, w.key, err))
		}
	}
	for _, ch := range c.children(o) {
		if keep[ch.kind][informers.KeyOf(ch.object)] || ch.object.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.prune(ctx, o, ch); err != nil {
			errs = append(errs, err)
		}
	}
	if err := c.setStatus(ctx, o, a.status); err != nil {
		errs = append(errs, fmt.Errorf("status: %w", err))
	}
	if len(errs) == 1 {
		return errs[0] // which may be told apart
	}
	return errors.Join(errs...)
}

// ensure makes an object what it should be.
func (c *cycle) ensure(ctx context.Context, owner object, w *wanted) error {
	current, ok := w.kind.copy.Get(w.key.Namespace, w.key.Name)
	if !ok {
		made, err := w.fresh(owner)
		if err != nil {
			return err
		}
		_, err = w.kind.api.Create(ctx, made)
		if err == nil {
			c.l.p.events.Event(owner, corev1.EventTypeNormal, "Created", fmt.Sprintf("created %s %s", w.kind.row.Kind, w.key.Name))
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		// The copy does not have it, because it is old or because of the selector.
		if current, err = w.kind.api.Get(ctx, w.key.Namespace, w.key.Name); err != nil {
			return err
		}
	}
	err := c.update(ctx, owner, w, current)
	if !apierrors.IsConflict(err) {
		return err
	}
	if current, err = w.kind.api.Get(ctx, w.key.Namespace, w.key.Name); err != nil {
		return err
	}
	return c.update(ctx, owner, w, current)
}

func (c *cycle) update(ctx context.Context, owner object, w *wanted, current object) error {
	if current.GetDeletionTimestamp() != nil {
		return nil // it is made anew when it is gone
	}
	if ref := metav1.GetControllerOf(current); ref == nil || ref.UID != owner.GetUID() {
		by := "nobody"
		if ref != nil {
			by = ref.Kind + " " + ref.Name
		}
		return fmt.Errorf("is there already, and is controlled by %s", by)
	}
	next, err := w.next(current)
	if next == nil || err != nil {
		return err
	}
	_, err = w.kind.api.Update(ctx, next)
	return err
}

// prune deletes an object that should not be there.
func (c *cycle) prune(ctx context.Context, owner object, ch child) error {
	uid, background := ch.object.GetUID(), metav1.DeletePropagationBackground
	err := ch.kind.api.Delete(ctx, ch.object.GetNamespace(), ch.object.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another in its place
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s %q: %w", ch.kind.row.Kind, ch.object.GetName(), err)
	}
	c.l.p.events.Event(owner, corev1.EventTypeNormal, "Deleted", fmt.Sprintf("deleted %s %s", ch.kind.row.Kind, ch.object.GetName()))
	return nil
}

// setStatus merges the status of an answer into the object's.
func (c *cycle) setStatus(ctx context.Context, o object, status any) error {
	if status == nil || equal(mergePatch(o.Object["status"], status), o.Object["status"]) {
		return nil
	}
	patch, err := marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	var sub []string
	if c.primary.hasStatus {
		sub = []string{"status"}
	}
	got, err := c.primary.api.Patch(ctx, o.GetNamespace(), o.GetName(), types.MergePatchType, patch, sub...)
	if apierrors.IsNotFound(err) {
		return nil // it went meanwhile
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Another may have changed the object between what the guest saw and this.
	if seen, ok := c.primary.copy.Get(o.GetNamespace(), o.GetName()); ok && seen.GetResourceVersion() == o.GetResourceVersion() && sameBut(got, o) {
		c.mine[informers.KeyOf(o)] = got.GetResourceVersion()
	}
	return nil
}

// sameBut reports whether two states of an object are the same but for what a
// write of the status changes.
func sameBut(a, b object) bool {
	strip := func(o object) map[string]any {
		out := map[string]any{}
		for k, v := range o.Object {
			if k != "metadata" && k != "status" {
				out[k] = v
			}
		}
		if meta, ok := o.Object["metadata"].(map[string]any); ok {
			m := map[string]any{}
			for k, v := range meta {
				if k != "resourceVersion" && k != "managedFields" {
					m[k] = v
				}
			}
			out["metadata"] = m
		}
		return out
	}
	return equal(strip(a), strip(b))
}
