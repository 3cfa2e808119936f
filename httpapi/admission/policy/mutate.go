package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/proa-project/proa/api"
)

// maxObject is the largest object that a policy may leave, in bytes.
const maxObject = 4 << 20

// mutate calls the policies, each on what the one before has left, and those
// that want it a second time if another has changed the object after them. The
// outcome is decoded once. If that fails, all are called again, decoding after
// each, to find the one that broke the object: it has failed.
func (c *call) mutate(ctx context.Context) error {
	warnings, steps := len(c.r.Warnings), c.trace.len()
	dirty, err := c.rounds(ctx, false)
	if !dirty {
		return err
	}
	// Whoever fails on what another has left is not to blame for it.
	var broken error
	if c.changed, broken = c.decode(c.in.Object); broken != nil {
		c.in.change(c.before)
		c.r.Warnings = c.r.Warnings[:warnings]
		c.trace.cut(steps)
		_, err = c.rounds(ctx, true)
	}
	if err != nil {
		return err
	}
	if c.changed != nil {
		c.r.Object = c.changed
		c.r.Changed()
	}
	return nil
}

// rounds calls the policies. It reports whether one has changed the object, also
// when another fails.
func (c *call) rounds(ctx context.Context, careful bool) (dirty bool, err error) {
	last := -1 // index of the latest policy that has changed the object
	for i, p := range c.policies {
		changed, err := c.step(ctx, p, careful)
		if err != nil {
			return dirty, err
		}
		if changed {
			last, dirty = i, true
		}
	}
	for i, p := range c.policies {
		if i >= last {
			break
		}
		if again, ok := p.(interface{ Reinvoke() bool }); !ok || !again.Reinvoke() {
			continue
		}
		changed, err := c.step(ctx, p, careful)
		if err != nil {
			return dirty, err
		}
		dirty = dirty || changed
	}
	return dirty, nil
}

// step calls one policy and takes over its change.
func (c *call) step(ctx context.Context, p Policy, careful bool) (changed bool, err error) {
	v, s, err := c.ask(ctx, p)
	if err != nil || v == nil {
		return false, err
	}
	next, err := apply(c.in.Object, v)
	if err == nil && careful {
		var obj api.Object
		if obj, err = c.decode(next); err == nil {
			c.changed = obj
		} else {
			err = fmt.Errorf("the changed object is invalid: %w", err)
		}
	}
	if err != nil {
		return false, c.broken(s, err.Error(), ignores(p))
	}
	if bytes.Equal(next, c.in.Object) {
		s.Outcome = outcomeAllowed
		c.trace.add(s)
		return false, nil
	}
	s.change(c.r, c.in.Object, v)
	c.trace.add(s)
	c.r.Annotate("patch.plugins.proa.io/"+s.id.Name, cut(s.Patch, maxAnnotation))
	c.in.change(next)
	return true, nil
}

// ignores reports whether a policy that leaves an unusable object is passed
// over.
func ignores(p Policy) bool {
	i, ok := p.(interface{ Ignores() bool })
	return ok && i.Ignores()
}

// apply returns the object after a verdict.
func apply(object []byte, v *Verdict) ([]byte, error) {
	if len(object) == 0 {
		return nil, errors.New("the reply changes an object, but the request has none")
	}
	if v.Object != nil {
		return v.Object, nil
	}
	patch, err := jsonpatch.DecodePatch(v.Patch)
	if err != nil {
		return nil, fmt.Errorf("the patch cannot be read: %w", err)
	}
	out, err := patch.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("the patch cannot be applied: %w", err)
	}
	if len(out) > maxObject {
		return nil, fmt.Errorf("the patched object has %d bytes, the limit is %d", len(out), maxObject)
	}
	return out, nil
}

// decode makes the object of JSON, strictly, and checks that it is still the
// same one.
func (c *call) decode(object []byte) (api.Object, error) {
	was, ok := c.r.Object.(api.Object)
	if !ok {
		return nil, fmt.Errorf("a %T cannot be changed", c.r.Object)
	}
	fresh := newLike(was)
	if fresh == nil {
		return nil, fmt.Errorf("a %T cannot be changed", c.r.Object)
	}
	if !json.Valid(object) {
		return nil, errors.New("it is no JSON")
	}
	if u, ok := fresh.(*unstructured.Unstructured); ok {
		if err := u.UnmarshalJSON(object); err != nil {
			return nil, err
		}
	} else if _, err := api.Decode(object, api.MediaJSON, fresh, api.Strict); err != nil {
		return nil, err
	}
	var meta metav1.TypeMeta
	if err := json.Unmarshal(object, &meta); err != nil {
		return nil, err
	}
	gvk := was.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "" {
		gvk = kindOf(was)
	}
	if meta.Kind != gvk.Kind || meta.APIVersion != gvk.GroupVersion().String() {
		return nil, fmt.Errorf("its kind is %s %s, not %s %s", meta.APIVersion, meta.Kind, gvk.GroupVersion(), gvk.Kind)
	}
	if fresh.GetResourceVersion() == "" {
		fresh.SetResourceVersion(was.GetResourceVersion())
	}
	for _, f := range []struct{ name, was, is string }{
		{"name", was.GetName(), fresh.GetName()},
		{"generateName", was.GetGenerateName(), fresh.GetGenerateName()},
		{"namespace", was.GetNamespace(), fresh.GetNamespace()},
		{"uid", string(was.GetUID()), string(fresh.GetUID())},
		{"resourceVersion", was.GetResourceVersion(), fresh.GetResourceVersion()},
	} {
		if f.was != f.is {
			return nil, fmt.Errorf("its metadata.%s is %q, not %q", f.name, f.is, f.was)
		}
	}
	return fresh, nil
}

// kindOf returns the kind of an object that does not say it.
func kindOf(obj runtime.Object) schema.GroupVersionKind {
	if kinds, _, err := api.Scheme().ObjectKinds(obj); err == nil && len(kinds) > 0 {
		return kinds[0]
	}
	return schema.GroupVersionKind{}
}

// newLike returns an empty object of the same type.
func newLike(obj api.Object) api.Object {
	t := reflect.TypeOf(obj)
	if t.Kind() != reflect.Pointer {
		return nil
	}
	fresh, ok := reflect.TypeAssert[api.Object](reflect.New(t.Elem()))
	if !ok {
		return nil
	}
	return fresh
}
