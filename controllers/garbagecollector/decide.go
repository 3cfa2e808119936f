package garbagecollector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
)

// An ownerState is what a look at an owner has found.
type ownerState uint8

const (
	solid    ownerState = iota // it is there
	dangling                   // it does not exist
	waiting                    // it is being deleted in the foreground
	unknown                    // it cannot be told, so it counts as being there
)

// A verdict is what is to be done with an object.
type verdict struct {
	// release are the references to take off.
	release []types.UID
	// unblock are references whose blockOwnerDeletion is to be cleared.
	unblock bool
	// remove deletes the object in this way, if it is not empty.
	remove metav1.DeletionPropagation
}

// judge decides about an object that exists and is not being deleted, from
// what is known of its owners. HasDependents and dependentDeleting are about
// what the object owns itself. It is pure.
func judge(owners []owner, states []ownerState, finalizers []string, hasDependents, dependentForeground bool) verdict {
	var v verdict
	var held, waits bool
	for i, s := range states {
		switch s {
		case solid, unknown:
			held = true
		case dangling:
			v.release = append(v.release, owners[i].uid)
		case waiting:
			v.release = append(v.release, owners[i].uid)
			waits = true
		}
	}
	switch {
	case len(owners) == 0:
		return verdict{}
	case held:
		return v // somebody still needs it; the other references are taken off
	case waits && hasDependents:
		// Owners that wait for it wait for what it owns as well, unless they
		// wait for each other in a circle.
		return verdict{unblock: dependentForeground, remove: metav1.DeletePropagationForeground}
	}
	for _, f := range finalizers {
		switch f {
		case metav1.FinalizerOrphanDependents:
			return verdict{remove: metav1.DeletePropagationOrphan}
		case metav1.FinalizerDeleteDependents:
			return verdict{remove: metav1.DeletePropagationForeground}
		}
	}
	return verdict{remove: metav1.DeletePropagationBackground}
}

// kindOf returns the row of an owner's kind, nil if it is not served.
func kindOf(o owner) *api.Resource {
	gvk := schema.FromAPIVersionAndKind(o.apiVersion, o.kind)
	if r := api.ByKind(gvk); r != nil {
		return r
	}
	return o.kinds.lookup(gvk.GroupKind())
}
