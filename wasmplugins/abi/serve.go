package abi

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ExportServe is the export of virtual APIs.
const ExportServe = "proa_serve"

// A ServeRequest is what a virtual API is asked for.
type ServeRequest struct {
	APIVersion string          `json:"apiVersion"`
	Verb       string          `json:"verb"` // get, list, create, update or delete
	Resource   string          `json:"resource"`
	Namespace  string          `json:"namespace,omitempty"`
	Name       string          `json:"name,omitempty"`
	Object     json.RawMessage `json:"object,omitempty"`
	User       ServeUser       `json:"user"`

	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	Limit         int64  `json:"limit,omitempty"`
	Continue      string `json:"continue,omitempty"`
}

// A ServeUser is who asks.
type ServeUser struct {
	Username string   `json:"username,omitempty"`
	Groups   []string `json:"groups,omitempty"`
}

// A ServeReply is the answer: an object, a list, or what is wrong.
type ServeReply struct {
	Object   json.RawMessage   `json:"object,omitempty"`
	Items    []json.RawMessage `json:"items,omitempty"`
	Continue string            `json:"continue,omitempty"`
	Status   *ServeStatus      `json:"status,omitempty"`
}

// A ServeStatus is why there is no object.
type ServeStatus struct {
	Code    int32  `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ParseServeReply decodes and checks the reply to a verb. It shares nothing
// with b.
func ParseServeReply(b []byte, verb string) (*ServeReply, error) {
	r := &ServeReply{}
	if len(b) > 0 {
		if err := json.Unmarshal(b, r); err != nil {
			return nil, fmt.Errorf("the reply is no JSON of an answer: %w", err)
		}
	}
	switch {
	case r.Status != nil:
		if r.Status.Code < 400 || r.Status.Code > 599 {
			return nil, fmt.Errorf("the status code %d is no failure", r.Status.Code)
		}
	case verb == "list" || verb == "delete": // nothing is a fine answer
	case len(r.Object) == 0:
		return nil, errors.New("there is neither an object nor a status")
	}
	return r, nil
}
