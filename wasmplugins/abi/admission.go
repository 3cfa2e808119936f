package abi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// The phases of admission, as a request states them.
const (
	PhaseMutate   = "mutate"
	PhaseValidate = "validate"
)

// An AdmissionRequest becomes the AdmissionRequest of admission.k8s.io/v1 that
// a guest gets. The raw fields hold JSON; empty ones are left out.
type AdmissionRequest struct {
	UID                  string
	Group, Version, Kind string
	ResourceGroup        string
	ResourceVersion      string
	Resource             string
	SubResource          string
	Name, Namespace      string
	Operation            string
	Username, UserUID    string
	Groups               []string
	Extra                map[string][]string
	DryRun               bool
	Options              []byte
	Object, OldObject    []byte
}

// Append appends the input of proa_admit to b. The small fields come first, so
// that a guest finds them quickly, and the settings before the objects.
func (r *AdmissionRequest) Append(b []byte, phase string, settings []byte) []byte {
	b = append(b, `{"apiVersion":"`+Native+`","phase":"`...)
	b = append(b, phase...)
	b = append(b, '"')
	if len(settings) > 0 {
		b = append(b, `,"settings":`...)
		b = append(b, settings...)
	}
	b = append(b, `,"request":`...)
	return append(r.append(b, false), '}')
}

// AppendRequest appends the AdmissionRequest alone, as webhooks and the guests
// of foreign ABIs expect it: with the kind and the resource twice, as they are
// and as they were requested.
func (r *AdmissionRequest) AppendRequest(b []byte) []byte { return r.append(b, true) }

func (r *AdmissionRequest) append(b []byte, twice bool) []byte {
	b = append(b, `{"uid":`...)
	b = quote(b, r.UID)
	b = r.what(b, "kind", "resource", "subResource")
	if twice {
		b = r.what(b, "requestKind", "requestResource", "requestSubResource")
	}
	if r.Name != "" {
		b = field(b, "name", r.Name)
	}
	if r.Namespace != "" {
		b = field(b, "namespace", r.Namespace)
	}
	b = field(b, "operation", r.Operation)
	b = append(b, `,"userInfo":{"username":`...)
	b = quote(b, r.Username)
	if r.UserUID != "" {
		b = field(b, "uid", r.UserUID)
	}
	if len(r.Groups) > 0 {
		b = append(b, `,"groups":[`...)
		for i, g := range r.Groups {
			if i > 0 {
				b = append(b, ',')
			}
			b = quote(b, g)
		}
		b = append(b, ']')
	}
	if len(r.Extra) > 0 {
		if extra, err := json.Marshal(r.Extra); err == nil { // strings always encode
			b = append(append(b, `,"extra":`...), extra...)
		}
	}
	b = append(b, `},"dryRun":`...)
	b = strconv.AppendBool(b, r.DryRun)
	b = raw(b, "options", r.Options)
	b = raw(b, "object", r.Object)
	b = raw(b, "oldObject", r.OldObject)
	return append(b, '}')
}

// what appends the kind and the resource under the given keys.
func (r *AdmissionRequest) what(b []byte, kind, resource, subResource string) []byte {
	b = append(append(append(b, `,"`...), kind...), `":{"group":`...)
	b = quote(b, r.Group)
	b = field(b, "version", r.Version)
	b = field(b, "kind", r.Kind)
	b = append(append(append(b, `},"`...), resource...), `":{"group":`...)
	b = quote(b, r.ResourceGroup)
	b = field(b, "version", r.ResourceVersion)
	b = field(b, "resource", r.Resource)
	b = append(b, '}')
	if r.SubResource != "" {
		b = field(b, subResource, r.SubResource)
	}
	return b
}

func field(b []byte, key, value string) []byte {
	b = append(b, `,"`...)
	b = append(b, key...)
	b = append(b, `":`...)
	return quote(b, value)
}

func raw(b []byte, key string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, key...)
	b = append(b, `":`...)
	return append(b, value...)
}

// quote appends a JSON string; most need no escapes.
func quote(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			q, err := json.Marshal(s)
			if err != nil { // strings always encode
				return append(b, `""`...)
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Limits of replies, in bytes.
const (
	MaxReply = 1 << 20 // without an object
	MaxCarry = 4 << 20 // with an object
)

// An AdmissionReply is what proa_admit answers.
type AdmissionReply struct {
	Allowed          bool
	Code             int32
	Reason, Message  string
	Warnings         []string
	AuditAnnotations map[string]string
	// Patch is an RFC 6902 patch, Object the whole object; at most one of
	// them is set, and only in the phase mutate.
	Patch, Object json.RawMessage
}

// allowed is by far the most common reply.
var allowed = []byte(`{"allowed":true}`) //nolint:gochecknoglobals // a constant in all but name

// ParseAdmissionReply decodes and checks a reply. An empty one allows. The
// result shares nothing with b.
func ParseAdmissionReply(b []byte, phase string) (*AdmissionReply, error) {
	r := &AdmissionReply{}
	if len(b) == 0 || bytes.Equal(b, allowed) {
		r.Allowed = true
		return r, nil
	}
	var w struct {
		Allowed *bool `json:"allowed"`
		Status  struct {
			Code    int32  `json:"code"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"status"`
		Warnings         []string          `json:"warnings"`
		AuditAnnotations map[string]string `json:"auditAnnotations"`
		Patch            json.RawMessage   `json:"patch"`
		Object           json.RawMessage   `json:"object"`
	}
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("the reply is no answer to an admission request: %w", err)
	}
	if w.Allowed == nil {
		return nil, errors.New(`the reply does not say "allowed"`)
	}
	null := func(m json.RawMessage) bool { return len(m) == 0 || string(m) == "null" }
	if !null(w.Patch) {
		r.Patch = w.Patch
	}
	if !null(w.Object) {
		r.Object = w.Object
	}
	switch {
	case r.Object == nil && len(b) > MaxReply:
		return nil, fmt.Errorf("the reply has %d bytes, the limit is %d", len(b), MaxReply)
	case r.Patch != nil && r.Object != nil:
		return nil, errors.New("the reply has both a patch and an object")
	case phase != PhaseMutate && (r.Patch != nil || r.Object != nil):
		return nil, errors.New("the reply changes the object, which is not allowed in the phase " + phase)
	case !*w.Allowed && (r.Patch != nil || r.Object != nil):
		return nil, errors.New("the reply both refuses and changes the object")
	case w.Status.Code != 0 && (w.Status.Code < 400 || w.Status.Code > 599):
		return nil, fmt.Errorf("the reply has the status code %d, which is no refusal", w.Status.Code)
	}
	r.Allowed = *w.Allowed
	r.Code, r.Reason, r.Message = w.Status.Code, w.Status.Reason, w.Status.Message
	r.Warnings, r.AuditAnnotations = w.Warnings, w.AuditAnnotations
	return r, nil
}

// ParseConfigureReply judges the reply of proa_configure. An empty one is
// consent.
func ParseConfigureReply(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	var w struct {
		Valid   *bool  `json:"valid"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(b, &w); err != nil || w.Valid == nil {
		return fmt.Errorf(`the reply to the settings does not say "valid"`)
	}
	if !*w.Valid {
		return fmt.Errorf("%w: %s", ErrSettings, w.Message)
	}
	return nil
}

// ErrSettings is wrapped when a guest refuses its settings.
var ErrSettings = errors.New("invalid settings")
