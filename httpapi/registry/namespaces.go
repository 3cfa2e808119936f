package registry

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/storage"
)

// Namespaces tells admission which namespaces there are.
type Namespaces struct {
	Store storage.Store
}

// Phase returns the phase of a namespace, and ok false if there is none of the
// name. With fresh it is not older than the call.
func (n Namespaces) Phase(ctx context.Context, name string, fresh bool) (phase corev1.NamespacePhase, ok bool, err error) {
	opts := storage.GetOptions{Match: storage.NotOlderThan}
	if fresh {
		opts.Match = storage.Fresh
	}
	row := api.ByGVR("", "v1", "namespaces")
	item, err := n.Store.Get(ctx, row.Key("", name), opts)
	if errors.Is(err, storage.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if item.Fields != nil {
		return corev1.NamespacePhase(item.Fields.Fields.Get("status.phase")), true, nil
	}
	_, fields, err := row.Extract(item.Value)
	return corev1.NamespacePhase(storage.Set(fields).Get("status.phase")), true, err
}
