package scan

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/request"
)

// page is how many objects are asked for at once.
const page = "500"

// scanner is who asks about objects that exist.
var scanner = &request.User{Name: "system:proa:policy-scan", Groups: []string{request.Authenticated}} //nolint:gochecknoglobals // a constant in all but name

// existing hands the objects that a plugin is for to ask, as if each were made
// just now, or changed if the plugin is not for new ones.
func (s *Scanner) existing(ctx context.Context, p *pluginsv1.AdmissionPlugin, ask func(question) error) error {
	for _, r := range s.c.Kinds() {
		op, ok := wanted(p.Spec.Rules, r)
		if !ok || r.Group == pluginsv1.GroupName || r.StoredAs != nil || !slices.Contains(r.Verbs, "list") {
			continue
		}
		if err := s.objects(ctx, r, func(raw json.RawMessage) error {
			u := &unstructured.Unstructured{}
			if err := json.Unmarshal(typed(r, raw), u); err != nil {
				return fmt.Errorf("read an object of %s: %w", r.Plural, err)
			}
			q := &admission.Request{
				UID: string(u.GetUID()), Operation: op, Resource: r, Namespace: u.GetNamespace(), Name: u.GetName(),
				User: scanner, DryRun: true, Object: u,
			}
			if op == admission.Update {
				q.OldObject = u
			}
			return ask(question{q, metav1.Now()})
		}); err != nil {
			return err
		}
	}
	return nil
}

// typed makes an item of a list an object of its own: items of a list need not
// say their kind.
func typed(r *api.Resource, raw json.RawMessage) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m["kind"] != nil && m["apiVersion"] != nil {
		return raw
	}
	m["kind"], _ = json.Marshal(r.Kind)                          // strings always encode
	m["apiVersion"], _ = json.Marshal(r.GroupVersion().String()) // strings always encode
	if b, err := json.Marshal(m); err == nil {
		return b
	}
	return raw
}

// wanted returns the operation as which a plugin wants to see objects of a
// kind.
func wanted(rules []admissionregistrationv1.RuleWithOperations, r *api.Resource) (admission.Operation, bool) {
	update := false
	for i := range rules {
		rule := &rules[i]
		has := func(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }
		if !has(rule.APIGroups, r.Group) || !has(rule.APIVersions, r.Version) || (!has(rule.Resources, r.Plural) && !slices.Contains(rule.Resources, "*/*")) {
			continue
		}
		for _, op := range rule.Operations {
			switch op {
			case admissionregistrationv1.Create, admissionregistrationv1.OperationAll:
				return admission.Create, true
			case admissionregistrationv1.Update:
				update = true
			case admissionregistrationv1.Delete, admissionregistrationv1.Connect:
			}
		}
	}
	return admission.Update, update
}

// objects lists a kind, page by page.
func (s *Scanner) objects(ctx context.Context, r *api.Resource, each func(json.RawMessage) error) error {
	path := "/apis/" + r.Group + "/" + r.Version + "/" + r.Plural
	if r.Group == "" {
		path = "/api/" + r.Version + "/" + r.Plural
	}
	q := url.Values{"limit": {page}}
	for {
		var list struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := s.read(ctx, client.Request{Path: path, Query: q}, &list); err != nil {
			return fmt.Errorf("list %s: %w", strings.TrimPrefix(path, "/"), err)
		}
		for _, raw := range list.Items {
			if err := each(raw); err != nil {
				return err
			}
		}
		if list.Metadata.Continue == "" {
			return nil
		}
		q.Set("continue", list.Metadata.Continue)
	}
}

func (s *Scanner) read(ctx context.Context, q client.Request, into any) error {
	resp, err := s.c.REST.Do(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to the end
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}
