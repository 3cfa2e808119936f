package nodeagent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/volume"
)

// environment returns the variables of a container: envFrom, then env in
// order, each able to refer to those before it.
func (w *worker) environment(ctx context.Context, pod *corev1.Pod, c *corev1.Container) ([]cri.EnvVar, error) {
	var order []string
	values := map[string]string{}
	set := func(name, value string) {
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = value
	}
	for i := range c.EnvFrom {
		data, err := w.envFrom(ctx, pod, &c.EnvFrom[i])
		if err != nil {
			return nil, err
		}
		keys := make([]string, 0, len(data))
		for k := range data {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if name := c.EnvFrom[i].Prefix + k; len(validation.IsEnvVarName(name)) == 0 {
				set(name, data[k])
			}
		}
	}
	for i := range c.Env {
		e := &c.Env[i]
		if e.ValueFrom == nil {
			set(e.Name, expand(e.Value, func(name string) (string, bool) { v, ok := values[name]; return v, ok }))
			continue
		}
		value, ok, err := w.valueFrom(ctx, pod, c, e.ValueFrom)
		if err != nil {
			return nil, err
		}
		if ok {
			set(e.Name, value)
		}
	}
	list := make([]cri.EnvVar, 0, len(order))
	for _, name := range order {
		list = append(list, cri.EnvVar{Name: name, Value: values[name]})
	}
	return list, nil
}

func (w *worker) envFrom(ctx context.Context, pod *corev1.Pod, from *corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		cm, err := w.agent.sources.ConfigMap(ctx, pod.Namespace, from.ConfigMapRef.Name)
		if err != nil {
			if optional(from.ConfigMapRef.Optional) && apierrors.IsNotFound(err) {
				return nil, nil
			}
			return nil, err
		}
		return cm.Data, nil
	case from.SecretRef != nil:
		s, err := w.agent.sources.Secret(ctx, pod.Namespace, from.SecretRef.Name)
		if err != nil {
			if optional(from.SecretRef.Optional) && apierrors.IsNotFound(err) {
				return nil, nil
			}
			return nil, err
		}
		m := map[string]string{}
		for k, v := range s.Data {
			m[k] = string(v)
		}
		return m, nil
	}
	return nil, nil
}

func optional(b *bool) bool { return b != nil && *b }

// valueFrom returns the value that a variable refers to; it is not ok if it is
// optional and not there.
func (w *worker) valueFrom(ctx context.Context, pod *corev1.Pod, c *corev1.Container, from *corev1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = volume.Field(pod, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		name := from.ResourceFieldRef.ContainerName
		if name == "" {
			name = c.Name
		}
		value, err = volume.Resource(pod, from.ResourceFieldRef, name, w.agent.sources.Allocatable)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := w.agent.sources.ConfigMap(ctx, pod.Namespace, ref.Name)
		if err == nil {
			if value, ok = cm.Data[ref.Key]; !ok {
				err = fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, pod.Namespace, ref.Name)
			}
		}
		return value, ok, missing(err, ref.Optional)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, err := w.agent.sources.Secret(ctx, pod.Namespace, ref.Name)
		if err == nil {
			var b []byte
			if b, ok = s.Data[ref.Key]; !ok {
				err = fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, pod.Namespace, ref.Name)
			}
			value = string(b)
		}
		return value, ok, missing(err, ref.Optional)
	}
	return "", false, nil
}

// missing forgives what is not there if it is optional.
func missing(err error, opt *bool) error {
	_, isStatus := err.(apierrors.APIStatus)
	if err != nil && optional(opt) && (!isStatus || apierrors.IsNotFound(err)) {
		return nil
	}
	return err
}

func lookupIn(env []cri.EnvVar) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, e := range env {
			if e.Name == name {
				return e.Value, true
			}
		}
		return "", false
	}
}

// expand replaces $(NAME) by the value of NAME, $$ by $, and leaves a
// reference to what is not there as it is.
func expand(s string, lookup func(string) (string, bool)) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i:], ')')
			if end < 0 {
				b.WriteByte('$')
				continue
			}
			name := s[i+2 : i+end]
			if v, ok := lookup(name); ok {
				b.WriteString(v)
			} else {
				b.WriteString("$(" + name + ")")
			}
			i += end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}
