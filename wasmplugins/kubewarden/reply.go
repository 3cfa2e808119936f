package kubewarden

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/proa-project/proa/wasmplugins/abi"
)

// A verdict is a policy's answer to validate.
type verdict struct {
	Accepted         *bool             `json:"accepted"`
	Message          string            `json:"message"`
	Code             int64             `json:"code"`
	MutatedObject    json.RawMessage   `json:"mutated_object"`
	AuditAnnotations map[string]string `json:"audit_annotations"`
	Warnings         []string          `json:"warnings"`
}

// parseVerdict decodes an answer. The result shares nothing with b.
func parseVerdict(b []byte) (*verdict, error) {
	v := &verdict{}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("the reply is no validation response: %w", err)
	}
	if v.Accepted == nil {
		return nil, errors.New(`the reply does not say "accepted"`)
	}
	if string(v.MutatedObject) == "null" {
		v.MutatedObject = nil
	}
	if len(v.MutatedObject) == 0 && len(b) > abi.MaxReply {
		return nil, fmt.Errorf("the reply has %d bytes, the limit is %d", len(b), abi.MaxReply)
	}
	return v, nil
}

// reply makes of the verdict what the phase wants.
func (v *verdict) reply(phase string, r *abi.AdmissionRequest, mayMutate bool) (*abi.AdmissionReply, error) {
	out := &abi.AdmissionReply{Allowed: *v.Accepted, Warnings: v.Warnings, AuditAnnotations: v.AuditAnnotations}
	if !out.Allowed {
		out.Message = v.Message
		if v.Code >= 400 && v.Code <= 599 { // Kubewarden takes any, a client does not
			out.Code = int32(v.Code)
		}
		return out, nil
	}
	if len(v.MutatedObject) == 0 {
		return out, nil
	}
	if !strings.HasPrefix(string(v.MutatedObject), "{") {
		return nil, errors.New("the mutated object is not an object")
	}
	same, err := sameObject(v.MutatedObject, r.Object)
	switch {
	case err != nil:
		return nil, err
	case same: // a policy that mutates may give back what is good already
	case !mayMutate:
		return nil, errors.New("the reply changes the object, but the policy's metadata does not call it mutating")
	case phase != abi.PhaseMutate:
		return nil, errors.New("the reply changes the object, which is not allowed in the phase " + phase)
	default:
		out.Object = v.MutatedObject
	}
	return out, nil
}

// sameObject compares two objects by what they mean: a null is as good as no
// field.
func sameObject(a, b []byte) (bool, error) {
	x, err := decode(a)
	if err != nil {
		return false, fmt.Errorf("the mutated object: %w", err)
	}
	y, err := decode(b)
	if err != nil {
		return false, nil //nolint:nilerr // there is none, or it is not JSON: that is not the policy's fault
	}
	return reflect.DeepEqual(x, y), nil
}

func decode(b []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return normal(v), nil
}

// normal drops nulls and writes numbers in one way.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
			} else {
				v[key] = normal(value)
			}
		}
	case []any:
		for n := range v {
			v[n] = normal(v[n])
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			if n := int64(f); float64(n) == f {
				return n
			}
			return f
		}
	}
	return v
}

// parseSettingsReply judges an answer to validate_settings.
func parseSettingsReply(b []byte) error {
	var w struct {
		Valid   *bool  `json:"valid"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(b, &w); err != nil || w.Valid == nil {
		return errors.New(`the reply to the settings does not say "valid"`)
	}
	if !*w.Valid {
		return fmt.Errorf("%w: %s", abi.ErrSettings, w.Message)
	}
	return nil
}
