package reconcile

import (
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/wasmplugins/abi"
)

func unmarshal(b []byte, into any) error { return kjson.UnmarshalCaseSensitivePreserveInts(b, into) }

// namedAnnotation keeps what the last answer has named of an object.
const namedAnnotation = "plugins.proa.io/named"

// An answer is what a guest said, checked.
type answer struct {
	*abi.ReconcileReply
	objects []wanted
	status  any // nil for none
}

// wanted is an object that should be.
type wanted struct {
	kind   *kind
	key    informers.Key
	object map[string]any // nothing but what the answer names
}

// parse reads a reply. An error says that the guest does not do what it should.
func (c *cycle) parse(reply []byte, owner object) (*answer, error) {
	r, err := abi.ParseReconcileReply(reply)
	if err != nil {
		return nil, err
	}
	a := &answer{ReconcileReply: r}
	if r.Status != nil {
		if a.status, err = decodeJSON(r.Status); err != nil {
			return nil, fmt.Errorf("the status cannot be read: %w", err)
		}
		if row := c.primary.row; !c.primary.hasStatus && isBuiltin(row) {
			return nil, fmt.Errorf("there is a status, but %s have none", row.GR())
		}
	}
	seen := map[string]bool{}
	for i, raw := range r.Objects {
		w, err := c.want(raw, owner)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		id := w.kind.row.GR().String() + " " + w.key.String()
		if seen[id] {
			return nil, fmt.Errorf("objects[%d]: %s is there twice", i, id)
		}
		seen[id] = true
		a.objects = append(a.objects, w)
	}
	return a, nil
}

// want checks an object of an answer.
func (c *cycle) want(raw []byte, owner object) (wanted, error) {
	v, err := decodeJSON(raw)
	if err != nil {
		return wanted{}, err
	}
	m, ok := withoutNull(v).(map[string]any)
	if !ok {
		return wanted{}, errors.New("is no object")
	}
	u := &unstructured.Unstructured{Object: m}
	k := c.kindOf(u)
	if k == nil {
		return wanted{}, fmt.Errorf("%s %s is not among the kinds that the reconciler owns", u.GetAPIVersion(), u.GetKind())
	}
	w := wanted{kind: k, key: informers.Key{Name: u.GetName()}}
	if w.key.Name == "" {
		return wanted{}, errors.New("metadata.name is missing")
	}
	if w.key.Namespace, err = c.place(k, u.GetNamespace(), owner); err != nil {
		return wanted{}, err
	}
	if !k.selector.Matches(labelsOf(u)) {
		return wanted{}, fmt.Errorf("%s %q does not have the labels that spec.owns selects", k.row.Kind, w.key.Name)
	}
	w.object = namedParts(m, w.key)
	return w, nil
}

// kindOf returns the kind of an object among those that are owned, or nil.
func (c *cycle) kindOf(u object) *kind {
	for _, k := range c.owned {
		if k.is(u) {
			return k
		}
	}
	return nil
}

// place returns the namespace of an object that is owned by another.
func (c *cycle) place(k *kind, namespace string, owner object) (string, error) {
	switch {
	case !k.row.Namespaced && c.primary.row.Namespaced:
		return "", fmt.Errorf("%s have no namespace, so an object in a namespace cannot own them", k.row.GR())
	case !k.row.Namespaced:
		return "", nil
	case c.primary.row.Namespaced && namespace == "":
		return owner.GetNamespace(), nil
	case c.primary.row.Namespaced && namespace != owner.GetNamespace():
		return "", fmt.Errorf("it is in the namespace %q, not in that of its owner", namespace)
	case namespace == "":
		return "", errors.New("metadata.namespace is missing")
	}
	return namespace, nil
}

// namedParts returns what counts of an object in an answer: its identity,
// labels, annotations, and everything but metadata and status.
func namedParts(m map[string]any, key informers.Key) map[string]any {
	meta := map[string]any{"name": key.Name}
	if key.Namespace != "" {
		meta["namespace"] = key.Namespace
	}
	if old, ok := m["metadata"].(map[string]any); ok {
		for _, part := range []string{"labels", "annotations"} {
			if v, ok := old[part].(map[string]any); ok {
				meta[part] = v
			}
		}
	}
	out := map[string]any{"metadata": meta}
	for k, v := range m {
		if k != "metadata" && k != "status" {
			out[k] = v
		}
	}
	return out
}

// reference is the controller reference to an owner.
func reference(owner object) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// next returns an object as it should be, nil if that is how it is.
func (w *wanted) next(current object) (object, error) {
	var before named
	if text := current.GetAnnotations()[namedAnnotation]; text != "" {
		v, err := decodeJSON([]byte(text))
		if err == nil { // otherwise somebody has spoiled it: nothing is taken away
			before = v
		}
	}
	merged, _ := merge(before, w.object, current.Object).(map[string]any) // both are objects
	out := &unstructured.Unstructured{Object: merged}
	if err := note(out, w.object); err != nil {
		return nil, err
	}
	if equal(out.Object, current.Object) {
		return nil, nil
	}
	return out, nil
}

// fresh returns the object for its creation.
func (w *wanted) fresh(owner object) (object, error) {
	out := (&unstructured.Unstructured{Object: w.object}).DeepCopy()
	out.SetOwnerReferences([]metav1.OwnerReference{reference(owner)})
	return out, note(out, w.object)
}

// note writes down what an answer names. The metadata of o may be shared.
func note(o object, answer map[string]any) error {
	b, err := marshal(namesOf(answer))
	if err != nil {
		return err
	}
	meta, _ := o.Object["metadata"].(map[string]any) // it has a name
	annotations := map[string]any{}
	if old, ok := meta["annotations"].(map[string]any); ok {
		maps.Copy(annotations, old)
	}
	annotations[namedAnnotation] = string(b)
	next := make(map[string]any, len(meta)+1)
	maps.Copy(next, meta)
	next["annotations"] = annotations
	o.Object["metadata"] = next
	return nil
}
