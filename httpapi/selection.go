package httpapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/proa-project/proa/storage"
)

// A selector picks the items that a list or watch is about.
type selector struct {
	ep     *endpoint
	labels labels.Selector // nil if it selects everything
	fields []fields.Requirement
	// The parts of the field selector that are in the key. Empty strings are
	// not compared, unless the requirement is in fields as well.
	namespace, name string
}

// parseSelector reads the selectors of a request.
func (c *call) parseSelector() (*selector, error) {
	sel := &selector{ep: c.endpoint}
	if text := c.info.LabelSelector; text != "" {
		l, err := labels.Parse(text)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		if !l.Empty() {
			sel.labels = l
		}
	}
	if text := c.info.FieldSelector; text != "" {
		f, err := fields.ParseSelector(text)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		for _, req := range f.Requirements() {
			if err := sel.addField(req); err != nil {
				return nil, err
			}
		}
	}
	return sel, nil
}

// addField adds a requirement on a field. Those on name and namespace are
// answered from the key.
func (sel *selector) addField(req fields.Requirement) error {
	equal := req.Operator == selection.Equals || req.Operator == selection.DoubleEquals
	switch req.Field {
	case "metadata.name":
		if equal && sel.name == "" && req.Value != "" {
			sel.name = req.Value
			return nil
		}
	case "metadata.namespace":
		if equal && sel.namespace == "" && req.Value != "" && sel.ep.Namespaced {
			sel.namespace = req.Value
			return nil
		}
	default:
		name, err := sel.ep.fieldLabel(req.Field)
		if err != nil {
			return err
		}
		req.Field = name
	}
	sel.fields = append(sel.fields, req)
	return nil
}

// fieldLabel returns the name under which a field is stored.
func (ep *endpoint) fieldLabel(name string) (string, error) {
	if name == "spec.host" && ep.Group == "" && ep.Plural == "pods" { // its name of old
		name = "spec.nodeName"
	}
	if !slices.Contains(ep.Fields, name) {
		if len(ep.Fields) > 0 {
			return "", badRequest("field label not supported: %s", name)
		}
		return "", badRequest("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", name)
	}
	if stored, ok := ep.StoredFields[name]; ok {
		return stored, nil
	}
	return name, nil
}

// everything reports whether nothing is left out.
func (sel *selector) everything() bool {
	// The pointer saves an allocation per item.
	return sel.labels == nil && len(sel.fields) == 0 && sel.name == "" && sel.namespace == ""
}

// filter returns what to hand to storage: nil if nothing is left out.
func (sel *selector) filter() func(*storage.Item) bool {
	if sel.everything() {
		return nil
	}
	return sel.matches
}

// matches reports whether an item is selected.
func (sel *selector) matches(item *storage.Item) bool {
	if sel.everything() {
		return true
	}
	var namespace, name string
	if sel.name != "" || sel.namespace != "" || len(sel.fields) > 0 {
		namespace, name = sel.ep.splitKey(item.Key)
		if (sel.name != "" && name != sel.name) || (sel.namespace != "" && namespace != sel.namespace) {
			return false
		}
	}
	if sel.labels == nil && len(sel.fields) == 0 {
		return true
	}
	have := item.Fields
	if have == nil || (sel.ep.kind != nil && len(sel.fields) > 0) {
		l, f, err := sel.ep.Extract(item.Value)
		if err != nil {
			return false
		}
		have = &storage.Fields{Labels: l, Fields: f}
	}
	for i := range sel.fields {
		req := &sel.fields[i]
		var value string
		switch req.Field {
		case "metadata.name":
			value = name
		case "metadata.namespace":
			value = namespace
		default:
			value = have.Fields.Get(req.Field)
		}
		if (value == req.Value) == (req.Operator == selection.NotEquals) {
			return false
		}
	}
	// The pointer saves an allocation per item.
	return sel.labels == nil || sel.labels.Matches(&have.Labels)
}

// splitKey returns the namespace and name in a storage key.
func (ep *endpoint) splitKey(key string) (namespace, name string) {
	rest := strings.TrimPrefix(key, ep.Stored().Storage)
	if !ep.Namespaced {
		return "", rest
	}
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

// prefix returns the storage prefix below which all selected items are, for a
// request about a namespace or, with "", all of them. ok is false if there can
// be none.
func (sel *selector) prefix(namespace string) (prefix string, ok bool) {
	if sel.namespace != "" {
		if namespace != "" && namespace != sel.namespace {
			return "", false
		}
		namespace = sel.namespace
	}
	prefix = sel.ep.Prefix(namespace)
	if sel.name != "" && (namespace != "" || !sel.ep.Namespaced) {
		prefix += sel.name
	}
	return prefix, true
}
