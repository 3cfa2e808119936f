package library

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
)

// pinned returns the digests of a module that plugins pin. It asks the API,
// since it is needed only when a version is about to be given up.
func (l *Library) pinned(ctx context.Context, name string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, collect := range []func(context.Context, *client.REST, string, map[string]bool) error{
		pins[*pluginsv1.AdmissionPlugin], pins[*pluginsv1.SchedulerPlugin], pins[*pluginsv1.AuthorizationPlugin],
		pins[*pluginsv1.AuthenticationPlugin], pins[*pluginsv1.ConversionPlugin], pins[*pluginsv1.VirtualAPI], pins[*pluginsv1.Reconciler],
	} {
		if err := collect(ctx, l.c.REST, name, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// binding is a kind of plugins.
type binding interface {
	api.Object
	pluginsv1.Binding
}

// pins adds the digests that the plugins of one kind pin.
func pins[T binding](ctx context.Context, rest *client.REST, name string, out map[string]bool) error {
	c := client.For[T](rest)
	list, err := c.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("look for pinned versions in %s: %w", c.Resource().Plural, err)
	}
	for _, o := range list.Items {
		common, _ := o.Bound()
		if common.Digest != "" && common.Module == name {
			out[common.Digest] = true
		}
		if p, ok := any(o).(*pluginsv1.AdmissionPlugin); ok && p.Spec.Candidate != nil {
			if c := p.Spec.Candidate; c.Digest != "" && (c.Module == name || c.Module == "" && common.Module == name) {
				out[c.Digest] = true
			}
		}
	}
	return nil
}
