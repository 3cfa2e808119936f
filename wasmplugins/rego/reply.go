package rego

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/proa-project/proa/wasmplugins/abi"
)

// result takes the value out of a result set, of which there is one.
func result(b []byte) (json.RawMessage, error) {
	var set []struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, fmt.Errorf("the reply is no result set: %w", err)
	}
	if len(set) == 0 || len(set[0].Result) == 0 {
		return nil, errUndefined
	}
	return set[0].Result, nil
}

// parseViolations judges the result of a Gatekeeper policy: what is in the set
// refuses the request.
func parseViolations(b []byte) (*abi.AdmissionReply, error) {
	v, err := result(b)
	if err != nil {
		return nil, err
	}
	if v[0] == '{' { // the whole package was made the entrypoint
		var w struct {
			Violation json.RawMessage `json:"violation"`
		}
		if err := json.Unmarshal(v, &w); err != nil || len(w.Violation) == 0 {
			return nil, errors.New("the result has no violations")
		}
		v = w.Violation
	}
	return reasons(v)
}

// reasons makes an answer of a set of strings, or of objects with a message.
func reasons(set json.RawMessage) (*abi.AdmissionReply, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(set, &items); err != nil {
		return nil, fmt.Errorf("the result is no set of reasons: %w", err)
	}
	r := &abi.AdmissionReply{Allowed: len(items) == 0}
	var messages []string
	for _, item := range items {
		var message string
		if json.Unmarshal(item, &message) != nil {
			var w struct {
				Msg     *string `json:"msg"`
				Message string  `json:"message"`
			}
			if err := json.Unmarshal(item, &w); err != nil {
				return nil, fmt.Errorf("a reason is neither a string nor an object with a message: %w", err)
			}
			if message = w.Message; w.Msg != nil {
				message = *w.Msg
			}
		}
		if message != "" {
			messages = append(messages, message)
		}
	}
	slices.Sort(messages) // the order in a set says nothing
	r.Message = strings.Join(messages, ", ")
	if len(r.Message) > abi.MaxReply {
		return nil, fmt.Errorf("the reasons have %d bytes, the limit is %d", len(r.Message), abi.MaxReply)
	}
	return r, nil
}

// A response is the AdmissionResponse that a policy makes.
type response struct {
	Allowed *bool `json:"allowed"`
	Status  struct {
		Code    int64  `json:"code"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"status"`
	Warnings         []string          `json:"warnings"`
	AuditAnnotations map[string]string `json:"auditAnnotations"`
	Patch            []byte            `json:"patch"` // in base64
	PatchType        string            `json:"patchType"`
}

// parseResponse judges the result of any other policy.
func parseResponse(b []byte, phase string, mayMutate bool) (*abi.AdmissionReply, error) {
	v, err := result(b)
	if err != nil {
		return nil, err
	}
	switch v[0] {
	case 't', 'f':
		return &abi.AdmissionReply{Allowed: v[0] == 't'}, nil
	case '[':
		return reasons(v)
	case '{':
	default:
		return nil, fmt.Errorf("the result is no judgement: %.100s", v)
	}
	var w struct {
		Response *response `json:"response"`
		response
		Allow *bool           `json:"allow"`
		Deny  json.RawMessage `json:"deny"`
	}
	if err := json.Unmarshal(v, &w); err != nil {
		return nil, fmt.Errorf("the result is no response: %w", err)
	}
	switch {
	case w.Response != nil:
		return w.Response.reply(phase, mayMutate)
	case w.Allowed != nil:
		return w.reply(phase, mayMutate)
	case bytes.HasPrefix(w.Deny, []byte("[")):
		r, err := reasons(w.Deny)
		if err == nil && w.Allow != nil && !*w.Allow {
			r.Allowed = false
		}
		return r, err
	case w.Allow != nil:
		return &abi.AdmissionReply{Allowed: *w.Allow}, nil
	}
	return nil, errors.New("the result has neither a response nor a judgement")
}

func (w *response) reply(phase string, mayMutate bool) (*abi.AdmissionReply, error) {
	if w.Allowed == nil {
		return nil, errors.New(`the response does not say "allowed"`)
	}
	r := &abi.AdmissionReply{
		Allowed: *w.Allowed, Reason: w.Status.Reason, Message: w.Status.Message,
		Warnings: w.Warnings, AuditAnnotations: w.AuditAnnotations,
	}
	if r.Message == "" { // older policies say everything in the reason
		r.Message, r.Reason = r.Reason, ""
	}
	if w.Status.Code >= 400 && w.Status.Code <= 599 {
		r.Code = int32(w.Status.Code)
	}
	if len(w.Patch) == 0 || !r.Allowed {
		return r, nil
	}
	switch {
	case w.PatchType != "" && w.PatchType != "JSONPatch":
		return nil, fmt.Errorf("the response has a patch of the unknown type %.50q", w.PatchType)
	case !mayMutate:
		return nil, errors.New("the reply changes the object, but the policy's metadata does not call it mutating")
	case phase != abi.PhaseMutate:
		return nil, errors.New("the reply changes the object, which is not allowed in the phase " + phase)
	case !json.Valid(w.Patch) || !bytes.HasPrefix(bytes.TrimSpace(w.Patch), []byte("[")):
		return nil, errors.New("the response's patch is no JSON patch")
	}
	r.Patch = w.Patch
	return r, nil
}
