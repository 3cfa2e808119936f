package controlplane

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/storage"
)

// A lookup answers what authentication and authorization ask about stored
// objects. It reads the server's own watch cache.
type lookup struct {
	store storage.Store
}

// object reads one object of core/v1; nil if it is not there. A read from the
// cache may miss what another server has just written, so what is missing is
// asked for again, fresh.
func (l lookup) object(ctx context.Context, resource, namespace, name string) (api.Object, error) {
	obj, err := l.read(ctx, resource, namespace, name, storage.NotOlderThan)
	if obj == nil && err == nil {
		return l.read(ctx, resource, namespace, name, storage.Fresh)
	}
	return obj, err
}

// read reads one object of core/v1; nil if it is not there.
func (l lookup) read(ctx context.Context, resource, namespace, name string, match storage.Match) (api.Object, error) {
	r := api.ByGVR("", "v1", resource)
	item, err := l.store.Get(ctx, r.Key(namespace, name), storage.GetOptions{Match: match})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	obj := r.New()
	return obj, api.DecodeStored(item.Value, obj)
}

// Secret implements authn.Secrets.
func (l lookup) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	obj, err := l.object(ctx, "secrets", namespace, name)
	secret, _ := obj.(*corev1.Secret) // nil is the answer
	return secret, err
}

// Referent implements authn.Referents.
func (l lookup) Referent(ctx context.Context, resource, namespace, name string) (*authn.Reference, error) {
	obj, err := l.object(ctx, resource, namespace, name)
	if obj == nil || err != nil {
		return nil, err
	}
	ref := &authn.Reference{UID: obj.GetUID()}
	if pod, ok := obj.(*corev1.Pod); ok {
		ref.ServiceAccount, ref.NodeName = pod.Spec.ServiceAccountName, pod.Spec.NodeName
	}
	return ref, nil
}

// NodeOfPod implements authz.NodeGraph.
func (l lookup) NodeOfPod(ctx context.Context, namespace, name string) (string, error) {
	obj, err := l.object(ctx, "pods", namespace, name)
	if pod, ok := obj.(*corev1.Pod); ok {
		return pod.Spec.NodeName, err
	}
	return "", err
}

// NodeUses implements authz.NodeGraph. It goes through the pods of the object's
// namespace that are bound to the node.
func (l lookup) NodeUses(ctx context.Context, node, resource, namespace, name string) (bool, error) {
	pods := api.ByGVR("", "v1", "pods")
	list, err := l.store.List(ctx, pods.Prefix(namespace), storage.ListOptions{
		Match: storage.NotOlderThan,
		Filter: func(i *storage.Item) bool {
			return i.Fields != nil && i.Fields.Fields.Get("spec.nodeName") == node
		},
	})
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		pod := &corev1.Pod{}
		if err := api.DecodeStored(list.Items[i].Value, pod); err != nil {
			return false, err
		}
		if uses(pod, resource, name) {
			return true, nil
		}
	}
	return false, nil
}

// uses reports whether a pod refers to an object of its namespace.
func uses(pod *corev1.Pod, resource, name string) bool {
	switch resource {
	case "serviceaccounts":
		return pod.Spec.ServiceAccountName == name
	case "secrets":
		return usesSecret(pod, name)
	case "configmaps":
		return usesConfigMap(pod, name)
	}
	return false
}

func usesSecret(pod *corev1.Pod, name string) bool {
	for _, s := range pod.Spec.ImagePullSecrets {
		if s.Name == name {
			return true
		}
	}
	return anyVolume(pod, func(v *corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == name
	}, func(s *corev1.VolumeProjection) bool {
		return s.Secret != nil && s.Secret.Name == name
	}) || anyContainer(pod, func(c *corev1.Container) bool {
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil && e.SecretRef.Name == name {
				return true
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name == name {
				return true
			}
		}
		return false
	})
}

func usesConfigMap(pod *corev1.Pod, name string) bool {
	return anyVolume(pod, func(v *corev1.Volume) bool {
		return v.ConfigMap != nil && v.ConfigMap.Name == name
	}, func(s *corev1.VolumeProjection) bool {
		return s.ConfigMap != nil && s.ConfigMap.Name == name
	}) || anyContainer(pod, func(c *corev1.Container) bool {
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil && e.ConfigMapRef.Name == name {
				return true
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil && e.ValueFrom.ConfigMapKeyRef.Name == name {
				return true
			}
		}
		return false
	})
}

// anyVolume reports whether volume is true for a volume of the pod, or source
// for a part of a projected one.
func anyVolume(pod *corev1.Pod, volume func(*corev1.Volume) bool, source func(*corev1.VolumeProjection) bool) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if volume(v) {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			if source(&v.Projected.Sources[j]) {
				return true
			}
		}
	}
	return false
}

// anyContainer reports whether f is true for a container of the pod.
func anyContainer(pod *corev1.Pod, f func(*corev1.Container) bool) bool {
	for i := range pod.Spec.InitContainers {
		if f(&pod.Spec.InitContainers[i]) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if f(&pod.Spec.Containers[i]) {
			return true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if f(&c) {
			return true
		}
	}
	return false
}
