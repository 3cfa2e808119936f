package reconcile

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
)

// Finalizer keeps a Reconciler until its finalizer is taken off all objects:
// without it they could not be deleted any more.
const Finalizer = "plugins.proa.io/reconciler"

// finalizerOf is the finalizer of the objects of a Reconciler.
func finalizerOf(name string) string {
	const longest = 63 // of the part behind the slash
	if len(name) > longest {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name)) // never fails
		name = fmt.Sprintf("%s-%08x", name[:longest-9], h.Sum32())
	}
	return "reconcilers.plugins.proa.io/" + name
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return e == s })
}

// setFinalizers replaces the finalizers of an object as it was seen.
func (c *cycle) setFinalizers(ctx context.Context, o object, finalizers []string) (object, error) {
	return setFinalizers(ctx, c.primary.api, o, finalizers)
}

func setFinalizers(ctx context.Context, api *client.Client[object], o object, finalizers []string) (object, error) {
	patch, err := finalizersPatch(o, finalizers)
	if err != nil {
		return nil, err
	}
	return api.Patch(ctx, o.GetNamespace(), o.GetName(), types.MergePatchType, patch)
}

func finalizersPatch(o metav1.Object, finalizers []string) ([]byte, error) {
	return marshal(map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion(), "finalizers": finalizers}})
}

// dropFinalizer lets an object go.
func (c *cycle) dropFinalizer(ctx context.Context, o object) error {
	_, err := c.setFinalizers(ctx, o, without(o.GetFinalizers(), finalizerOf(c.l.handle.Name())))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

// unselected takes the finalizer off an object that is not in the copy: it is
// gone, or no longer has the labels.
func (c *cycle) unselected(ctx context.Context, key informers.Key) error {
	if c.primary.text == "" || !c.l.isKept() {
		return nil
	}
	o, err := c.primary.api.Get(ctx, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Contains(o.GetFinalizers(), finalizerOf(c.l.handle.Name())) && !c.primary.selector.Matches(labelsOf(o)) {
		return c.dropFinalizer(ctx, o)
	}
	return nil
}

func (l *loop) isKept() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept || slices.Contains(l.handle.Object().Finalizers, Finalizer)
}

// keep gives the Reconciler its finalizer before an object gets one.
func (l *loop) keep(ctx context.Context) error {
	if l.isKept() {
		return nil
	}
	api := client.For[*pluginsv1.Reconciler](l.p.rest)
	o, err := api.Get(ctx, "", l.handle.Name())
	if err == nil && o.DeletionTimestamp != nil {
		return apierrors.NewConflict(api.Resource().GR(), o.Name, errDeleted) // the loop is about to end
	}
	if err == nil && !slices.Contains(o.Finalizers, Finalizer) {
		var patch []byte
		if patch, err = finalizersPatch(o, append(slices.Clone(o.Finalizers), Finalizer)); err == nil {
			_, err = api.Patch(ctx, "", o.Name, types.MergePatchType, patch)
		}
	}
	if err != nil {
		return fmt.Errorf("keep the reconciler: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = true
	return nil
}

// release takes the finalizer off all objects of a Reconciler that is being
// deleted, and then lets it go. It does so in the server's own name: what the
// server has put there it takes away.
func (l *loop) release(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.tryRelease(ctx)
		if err == nil {
			return
		}
		l.trouble("release", err)
		pause(ctx, l.p.c.Discover)
	}
}

func (l *loop) tryRelease(ctx context.Context) error {
	api := client.For[*pluginsv1.Reconciler](l.p.rest)
	o, err := api.Get(ctx, "", l.handle.Name())
	if apierrors.IsNotFound(err) || err == nil && !slices.Contains(o.Finalizers, Finalizer) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = l.releaseObjects(ctx, &o.Spec.For); err != nil {
		return err
	}
	patch, err := finalizersPatch(o, without(o.Finalizers, Finalizer))
	if err != nil {
		return err
	}
	if _, err = api.Patch(ctx, "", o.Name, types.MergePatchType, patch); apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (l *loop) releaseObjects(ctx context.Context, w *pluginsv1.WatchedKind) error {
	k, err := discover(ctx, l.p.rest, &pluginsv1.WatchedKind{Group: w.Group, Version: w.Version, Resource: w.Resource})
	if isUnserved(err) {
		return nil // with the kind its objects have gone
	}
	if err != nil {
		return err
	}
	api := client.Unstructured(l.p.rest, k.row)
	list, err := api.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return err
	}
	finalizer := finalizerOf(l.handle.Name())
	for _, o := range list.Items {
		if !slices.Contains(o.GetFinalizers(), finalizer) {
			continue
		}
		if _, err := setFinalizers(ctx, api, o, without(o.GetFinalizers(), finalizer)); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the finalizer of %q: %w", informers.KeyOf(o), err)
		}
	}
	return nil
}
