package api

import (
	"fmt"
	"slices"
)

// legacyFields are old names of field labels.
var legacyFields = map[string]map[string]string{
	"pods": {"spec.host": "spec.nodeName"},
}

// StoredField returns the name that a field label of this row has in the stored
// row, where Extract uses it. The error is upstream's text for a label that
// cannot be selected by.
func (r *Resource) StoredField(label string) (string, error) {
	if label == "metadata.name" || label == "metadata.namespace" && r.Namespaced {
		return label, nil
	}
	if name, ok := legacyFields[r.Plural][label]; ok {
		label = name
	}
	switch {
	case slices.Contains(r.Fields, label):
		if r.StoredAs != nil {
			return r.StoredFields[label], nil
		}
		return label, nil
	case label == "metadata.namespace" && len(r.Fields) == 0:
		return label, nil // no object of the kind has one, but one may ask
	case len(r.Fields) == 0:
		return "", fmt.Errorf("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", label)
	default:
		return "", fmt.Errorf("field label not supported: %s", label)
	}
}
