package abi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ExportReconcile is the export of reconcilers.
const ExportReconcile = "proa_reconcile"

// ReconcileInput returns the input of proa_reconcile. The objects are JSON.
func ReconcileInput(object []byte, owned [][]byte, deleting bool) ([]byte, error) {
	raw := make([]json.RawMessage, len(owned))
	for i, o := range owned {
		raw[i] = o
	}
	return json.Marshal(struct {
		APIVersion string            `json:"apiVersion"`
		Object     json.RawMessage   `json:"object"`
		Owned      []json.RawMessage `json:"owned"`
		Deleting   bool              `json:"deleting,omitempty"`
	}{Native, object, raw, deleting})
}

// A ReconcileReply is what should be.
type ReconcileReply struct {
	// Objects are those that should be there, all of them.
	Objects []json.RawMessage `json:"objects"`
	// Status is merged into the object's; nil leaves it alone.
	Status json.RawMessage `json:"status"`
	// RequeueAfterSeconds, if above 0, asks to be called again without a
	// change.
	RequeueAfterSeconds int64 `json:"requeueAfterSeconds"`
	// Finalized says that an object that is being deleted may go.
	Finalized bool `json:"finalized"`
	// Error has the call made again later; then nothing else counts.
	Error string `json:"error"`
}

// maxRequeueSeconds bounds what a guest may ask for: a week.
const maxRequeueSeconds = 7 * 24 * 3600

// ParseReconcileReply decodes and checks a reply. It shares nothing with b.
func ParseReconcileReply(b []byte) (*ReconcileReply, error) {
	r := &ReconcileReply{}
	if len(b) > 0 {
		if err := json.Unmarshal(b, r); err != nil {
			return nil, fmt.Errorf("the reply is no JSON of an answer: %w", err)
		}
	}
	if r.Error != "" {
		return &ReconcileReply{Error: r.Error}, nil
	}
	if bytes.Equal(r.Status, []byte("null")) {
		r.Status = nil
	}
	if r.Status != nil && r.Status[0] != '{' {
		return nil, errors.New("the status is no object")
	}
	if r.RequeueAfterSeconds < 0 || r.RequeueAfterSeconds > maxRequeueSeconds {
		return nil, fmt.Errorf("requeueAfterSeconds is %d, not between 0 and %d", r.RequeueAfterSeconds, maxRequeueSeconds)
	}
	return r, nil
}
