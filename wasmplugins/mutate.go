package wasmplugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// mutate calls a chain of plugins, each on what the one before has left. The
// outcome is decoded once. If that fails, the chain is called again, decoding
// after every plugin, to find the one that broke the object: its failurePolicy
// decides.
func (c *call) mutate(ctx context.Context, chain []*binding) error {
	before := c.object
	warnings := len(c.r.Warnings)
	dirty := false
	for _, b := range chain {
		changed, err := c.step(ctx, b)
		if err != nil {
			return err
		}
		dirty = dirty || changed
	}
	if !dirty {
		return nil
	}
	var err error
	if c.changed, err = c.decode(c.object); err == nil {
		return nil
	}
	c.object, c.r.Warnings = before, c.r.Warnings[:warnings]
	for _, b := range chain {
		last := c.object
		changed, err := c.step(ctx, b)
		if err != nil {
			return err
		}
		if !changed {
			continue
		}
		obj, err := c.decode(c.object)
		if err == nil {
			c.changed = obj
			continue
		}
		c.object = last
		if err = c.failed(ctx, b, &engine.Error{Plugin: b.name, Reason: engine.BadReply, Detail: "the changed object is invalid: " + err.Error()}); err != nil {
			return err
		}
	}
	return nil
}

// step calls one plugin and takes over its change.
func (c *call) step(ctx context.Context, b *binding) (changed bool, err error) {
	reply, err := c.ask(ctx, b)
	if err != nil || reply == nil || (reply.Patch == nil && reply.Object == nil) {
		return false, err
	}
	next, err := apply(c.object, reply)
	if err != nil {
		return false, c.failed(ctx, b, &engine.Error{Plugin: b.name, Reason: engine.BadReply, Detail: err.Error()})
	}
	c.object = next
	if reply.Patch != nil {
		c.r.Annotate("patch.plugins.proa.io/"+b.name, cut(string(reply.Patch), maxAnnotation))
	}
	return true, nil
}

// apply returns the object after a reply.
func apply(object []byte, reply *abi.AdmissionReply) ([]byte, error) {
	if len(object) == 0 {
		return nil, errors.New("the reply changes an object, but the request has none")
	}
	if reply.Object != nil {
		return reply.Object, nil
	}
	patch, err := jsonpatch.DecodePatch(reply.Patch)
	if err != nil {
		return nil, fmt.Errorf("the patch cannot be read: %w", err)
	}
	out, err := patch.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("the patch cannot be applied: %w", err)
	}
	if len(out) > abi.MaxCarry {
		return nil, fmt.Errorf("the patched object has %d bytes, the limit is %d", len(out), abi.MaxCarry)
	}
	return out, nil
}

// decode makes the typed object of JSON, strictly, and checks that it is still
// the same one.
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
	if _, err := api.Decode(object, "application/json", fresh, api.Strict); err != nil {
		return nil, err
	}
	var meta metav1.TypeMeta
	if err := json.Unmarshal(object, &meta); err != nil {
		return nil, err
	}
	gvk := was.GetObjectKind().GroupVersionKind()
	if gvk.Kind != "" && (meta.Kind != gvk.Kind || meta.APIVersion != gvk.GroupVersion().String()) {
		return nil, fmt.Errorf("its kind is %s %s, not %s %s", meta.APIVersion, meta.Kind, gvk.GroupVersion(), gvk.Kind)
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

// newLike returns an empty object of the same type.
func newLike(obj api.Object) api.Object {
	if r := api.ByType(obj); r != nil {
		return r.New()
	}
	fresh, err := api.Scheme().New(kindOf(obj))
	if err != nil {
		return nil
	}
	out, ok := fresh.(api.Object)
	if !ok {
		return nil
	}
	return out
}
