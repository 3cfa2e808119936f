package policystatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/proa-project/proa/api/expression"
	"github.com/proa-project/proa/httpapi/client"
)

// maxKinds is how many kinds one rule of a policy is checked against.
const maxKinds = 10

// schemas reads discovery and OpenAPI documents, each once, for one policy.
type schemas struct {
	rest *client.REST
	docs map[string]*spec3.OpenAPI
}

// of returns the kinds that a policy names, and the schema of its parameters.
// Rules with wildcards name none, and kinds that are not served have none.
func (s *schemas) of(ctx context.Context, p *admissionregistrationv1.ValidatingAdmissionPolicy) ([]expression.Kind, *spec.Schema, error) {
	var kinds []expression.Kind
	if m := p.Spec.MatchConstraints; m != nil {
		for i := range m.ResourceRules {
			more, err := s.ruled(ctx, &m.ResourceRules[i].Rule)
			if err != nil {
				return nil, nil, err
			}
			for _, k := range more {
				if !slices.ContainsFunc(kinds, func(have expression.Kind) bool { return have.GroupVersionKind == k.GroupVersionKind }) {
					kinds = append(kinds, k)
				}
			}
		}
	}
	if p.Spec.ParamKind == nil {
		return kinds, nil, nil
	}
	gv, err := schema.ParseGroupVersion(p.Spec.ParamKind.APIVersion)
	if err != nil {
		return kinds, nil, nil //nolint:nilerr // it is the policy's, and refused when it is created
	}
	params, err := s.schema(ctx, gv.WithKind(p.Spec.ParamKind.Kind))
	return kinds, params, err
}

// ruled returns the kinds of a rule.
func (s *schemas) ruled(ctx context.Context, r *admissionregistrationv1.Rule) ([]expression.Kind, error) {
	var kinds []expression.Kind
	if slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIVersions, "*") {
		return nil, nil
	}
	for _, group := range r.APIGroups {
		for _, version := range r.APIVersions {
			gv := schema.GroupVersion{Group: group, Version: version}
			var list metav1.APIResourceList
			if err := s.get(ctx, root(gv), &list); err != nil {
				if apierrors.IsNotFound(err) {
					continue
				}
				return nil, err
			}
			more, err := s.named(ctx, gv, &list, r.Resources)
			if err != nil {
				return nil, err
			}
			kinds = append(kinds, more...)
		}
	}
	return kinds[:min(len(kinds), maxKinds)], nil
}

// named returns the kinds of the resources of a group and version that are named
// and have a schema.
func (s *schemas) named(ctx context.Context, gv schema.GroupVersion, list *metav1.APIResourceList, resources []string) ([]expression.Kind, error) {
	var kinds []expression.Kind
	for i := range list.APIResources {
		a := &list.APIResources[i]
		if strings.Contains(a.Name, "/") || !slices.Contains(resources, a.Name) {
			continue
		}
		k := expression.Kind{GroupVersionKind: gv.WithKind(a.Kind)}
		var err error
		if k.Schema, err = s.schema(ctx, k.GroupVersionKind); err != nil {
			return nil, err
		}
		if k.Schema != nil {
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// schema returns the schema of a kind, whole; nil if there is none.
func (s *schemas) schema(ctx context.Context, gvk schema.GroupVersionKind) (*spec.Schema, error) {
	path := "/openapi/v3" + root(gvk.GroupVersion())
	if s.docs[path] == nil {
		doc := &spec3.OpenAPI{}
		if err := s.get(ctx, path, doc); err != nil {
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			return nil, err
		}
		if s.docs == nil {
			s.docs = map[string]*spec3.OpenAPI{}
		}
		s.docs[path] = doc
	}
	c := s.docs[path].Components
	if c == nil {
		return nil, nil
	}
	const prefix = "#/components/schemas/"
	for name, have := range c.Schemas {
		if !describes(have, gvk) {
			continue
		}
		whole, err := resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
			found, ok := c.Schemas[strings.TrimPrefix(ref, prefix)]
			return found, ok
		}, prefix+name)
		if err != nil {
			return nil, fmt.Errorf("resolve the schema of %v: %w", gvk, err)
		}
		return whole, nil
	}
	return nil, nil
}

// describes reports whether a schema is that of a kind.
func describes(s *spec.Schema, gvk schema.GroupVersionKind) bool {
	list, _ := s.Extensions["x-kubernetes-group-version-kind"].([]any) // none is of no kind
	return slices.ContainsFunc(list, func(item any) bool {
		m, ok := item.(map[string]any)
		return ok && m["group"] == gvk.Group && m["version"] == gvk.Version && m["kind"] == gvk.Kind
	})
}

// maxDocument is the largest document that is read, in bytes.
const maxDocument = 64 << 20

func (s *schemas) get(ctx context.Context, path string, into any) error {
	r, err := s.rest.Do(ctx, client.Request{Path: path})
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxDocument))
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if r.StatusCode == http.StatusNotFound {
		return apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("read %s: status %d", path, r.StatusCode)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
