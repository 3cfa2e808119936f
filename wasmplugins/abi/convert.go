package abi

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ExportConvert is the export of conversion.
const ExportConvert = "proa_convert"

// ConvertInput returns the input of proa_convert. The objects are JSON.
func ConvertInput(desired string, objects [][]byte) ([]byte, error) {
	raw := make([]json.RawMessage, len(objects))
	for i, o := range objects {
		raw[i] = o
	}
	return json.Marshal(struct {
		APIVersion        string            `json:"apiVersion"`
		DesiredAPIVersion string            `json:"desiredAPIVersion"`
		Objects           []json.RawMessage `json:"objects"`
	}{Native, desired, raw})
}

// ErrConversion is wrapped when a guest says that it cannot convert.
var ErrConversion = errors.New("conversion failed")

// ParseConvertReply decodes the reply of proa_convert. There must be as many
// objects as were asked about, each of the desired version and otherwise the
// same object. What is returned shares nothing with b.
func ParseConvertReply(b []byte, desired string, before [][]byte) ([][]byte, error) {
	var r struct {
		Objects []json.RawMessage `json:"objects"`
		Error   string            `json:"error"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("the reply is no JSON of a conversion: %w", err)
	}
	if r.Error != "" {
		return nil, fmt.Errorf("%w: %s", ErrConversion, r.Error)
	}
	if len(r.Objects) != len(before) {
		return nil, fmt.Errorf("%d objects came back for %d", len(r.Objects), len(before))
	}
	out := make([][]byte, len(before))
	for i := range r.Objects {
		if err := sameObject(before[i], r.Objects[i], desired); err != nil {
			return nil, fmt.Errorf("object %d: %w", i, err)
		}
		out[i] = r.Objects[i]
	}
	return out, nil
}

// identity is what a conversion may not change, and the version.
type identity struct{ apiVersion, kind, name, namespace, uid string }

// identityOf reads an object as the API does: a member METADATA is not the
// metadata, as encoding/json has it for structs, and of two the last counts.
func identityOf(object []byte) (id identity, err error) {
	var top, meta map[string]json.RawMessage
	if err := json.Unmarshal(object, &top); err != nil {
		return id, err
	}
	if m, ok := top["metadata"]; ok {
		if err := json.Unmarshal(m, &meta); err != nil {
			return id, fmt.Errorf("metadata: %w", err)
		}
	}
	for _, f := range []struct {
		from map[string]json.RawMessage
		name string
		into *string
	}{{top, "apiVersion", &id.apiVersion}, {top, "kind", &id.kind}, {meta, "name", &id.name}, {meta, "namespace", &id.namespace}, {meta, "uid", &id.uid}} {
		if raw, ok := f.from[f.name]; ok {
			if err := json.Unmarshal(raw, f.into); err != nil {
				return id, fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return id, nil
}

func sameObject(before, after []byte, desired string) error {
	was, err := identityOf(before)
	if err != nil {
		return err
	}
	is, err := identityOf(after)
	if err != nil {
		return err
	}
	if is.apiVersion != desired {
		return fmt.Errorf("apiVersion is %q, not %q", is.apiVersion, desired)
	}
	was.apiVersion = desired
	if is != was {
		return errors.New("kind, name, namespace or uid is another")
	}
	return nil
}
