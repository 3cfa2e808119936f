package reconcile

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
)

// A Claim is what is to be done about an object that may belong to an owner.
type Claim uint8

// The outcomes of ClaimOf.
const (
	Ignore  Claim = iota // it is somebody else's, or nobody's business
	Keep                 // it is the owner's already
	Adopt                // the owner should become its controller
	Release              // the owner should stop being its controller
)

// ClaimOf decides whether an object belongs to an owner: by its controller
// reference, and by the owner's selector where there is none. It is pure.
func ClaimOf(owner, obj metav1.Object, sel labels.Selector) Claim {
	matches := sel.Matches(labels.Set(obj.GetLabels()))
	if c := metav1.GetControllerOfNoCopy(obj); c != nil {
		switch {
		case c.UID != owner.GetUID():
			return Ignore
		case matches:
			return Keep
		case owner.GetDeletionTimestamp() != nil:
			return Ignore
		}
		return Release
	}
	if !matches || owner.GetDeletionTimestamp() != nil || obj.GetDeletionTimestamp() != nil {
		return Ignore
	}
	return Adopt
}

// ControllerUID returns the UID of the object's controller, or "".
func ControllerUID(obj metav1.Object) types.UID {
	if c := metav1.GetControllerOfNoCopy(obj); c != nil {
		return c.UID
	}
	return ""
}

// ControllerRef returns the reference that makes owner, of the kind of the
// row, a controller.
func ControllerRef(owner metav1.Object, row *api.Resource) metav1.OwnerReference {
	return *metav1.NewControllerRef(owner, row.GVK())
}

// AdoptPatch is the strategic merge patch that makes owner the controller of
// the object with the UID.
func AdoptPatch(owner metav1.Object, row *api.Resource, uid types.UID) ([]byte, error) {
	return ownerPatch(uid, ControllerRef(owner, row))
}

// ReleasePatch is the strategic merge patch that takes the owner's references
// off the object with the UID.
func ReleasePatch(uid types.UID, owners ...types.UID) ([]byte, error) {
	refs := make([]any, 0, len(owners))
	for _, o := range owners {
		refs = append(refs, map[string]string{"$patch": "delete", "uid": string(o)})
	}
	return ownerPatch(uid, refs...)
}

func ownerPatch(uid types.UID, refs ...any) ([]byte, error) {
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "ownerReferences": refs}})
	if err != nil {
		return nil, fmt.Errorf("encode owner patch: %w", err)
	}
	return b, nil
}

// OwnerIndex is an index function: the UID of the controller; Orphans is one
// too: the namespace of objects without controller.
func OwnerIndex[T api.Object](obj T) []string {
	if uid := ControllerUID(obj); uid != "" {
		return []string{string(uid)}
	}
	return nil
}

// Orphans returns the namespace of an object without a controller.
func Orphans[T api.Object](obj T) []string {
	if ControllerUID(obj) == "" {
		return []string{obj.GetNamespace()}
	}
	return nil
}

// The names under which loops add OwnerIndex and Orphans to an informer.
const (
	ByOwner   = "reconcile/owner"
	ByOrphans = "reconcile/orphans"
)
