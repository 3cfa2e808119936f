package httpapi

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/storage"
)

// errUnchanged ends a change that has turned out to be none.
var errUnchanged = errors.New("nothing to change")

// ChangeDefinition changes a stored CustomResourceDefinition, unless change
// returns false. A definition that is gone is no error. It is for the
// controller of definitions, package dynamic/crd.
func (s *Server) ChangeDefinition(ctx context.Context, name string, change func(*apiextensionsv1.CustomResourceDefinition) bool) error {
	ep := s.endpoints[apiextensionsv1.GroupName+"/v1/customresourcedefinitions"]
	if ep == nil {
		return errors.New("definitions are not served")
	}
	c := &registry.Call{UID: "definition-" + name, User: dynamic.Server, Name: name}
	_, err := ep.Amend(ctx, c, func(old registry.Stored) (api.Object, error) {
		crd, ok := old.Object.DeepCopyObject().(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return nil, fmt.Errorf("a definition is a %T", old.Object)
		}
		if !change(crd) {
			return nil, errUnchanged
		}
		return crd, nil
	})
	if isGone(err) || errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// DeleteObjects deletes all objects of a kind that is stored and appeared at
// run time. It returns how many are left, because something has to be done
// before they go.
func (s *Server) DeleteObjects(ctx context.Context, k *dynamic.Kind) (left int, err error) {
	row := k.Resource
	ep := s.dynamicEndpoint(row.Group, row.Version, row.Plural)
	if ep == nil || k.Stored == nil {
		return 0, fmt.Errorf("%s is not served", row.GR())
	}
	found, err := s.cfg.Store.List(ctx, row.Prefix(""), storage.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range found.Items {
		c := &registry.Call{UID: "definition-" + row.Plural, User: dynamic.Server}
		c.Namespace, c.Name = ep.splitKey(found.Items[i].Key)
		res, err := ep.Delete(ctx, c, &metav1.DeleteOptions{})
		switch {
		case isGone(err):
		case err != nil:
			return left, err
		case !res.Deleted:
			left++
		}
	}
	return left, nil
}
