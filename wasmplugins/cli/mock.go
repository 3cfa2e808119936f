package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/proa-project/proa/wasmplugins/engine"
)

// A hostCall is a call that a plugin may make in a case, and what it is
// answered. The first that fits is taken.
type hostCall struct {
	Call string `json:"call"` // the operation, such as kube.get
	// Request is what the plugin's request must contain; nothing fits all.
	Request json.RawMessage `json:"request,omitempty"`
	// Reply or Error is the answer; Denied ends the plugin's call as if the
	// binding did not grant this one.
	Reply  json.RawMessage `json:"reply,omitempty"`
	Error  string          `json:"error,omitempty"`
	Denied bool            `json:"denied,omitempty"`
}

// capability answers a guest with the calls of a case; without any it grants
// nothing.
func capability(calls []hostCall) func(context.Context, string, []byte) ([]byte, error) {
	if len(calls) == 0 {
		return nil
	}
	return func(_ context.Context, op string, request []byte) ([]byte, error) {
		for _, h := range calls {
			if h.Call != op || len(h.Request) > 0 && len(missing("", request, h.Request)) > 0 {
				continue
			}
			if h.Denied {
				return nil, &engine.Error{Reason: engine.CapabilityDenied, Detail: fmt.Sprintf("called %q, which is not granted", op)}
			}
			if h.Error != "" {
				return nil, errors.New(h.Error)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, h.Reply); err != nil {
				return nil, fmt.Errorf("the case's reply to %s: %w", op, err)
			}
			return compact.Bytes(), nil
		}
		return nil, &engine.Error{Reason: engine.CapabilityDenied, Detail: fmt.Sprintf("called %q with %s, for which the case has no answer", op, request)}
	}
}

// missing compares JSON: it returns what got lacks of want. Objects may have
// more members, arrays must be as long.
func missing(path string, got, want []byte) []string {
	var g, w any
	if err := json.Unmarshal(want, &w); err != nil {
		return []string{err.Error()}
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return []string{fmt.Sprintf("got %q, which is no JSON", got)}
	}
	return lacks(path, g, w)
}

func lacks(path string, got, want any) (diffs []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for key, value := range w {
			member, ok := g[key]
			if !ok {
				diffs = append(diffs, fmt.Sprintf("%s.%s: it is missing", path, key))
				continue
			}
			diffs = append(diffs, lacks(path+"."+key, member, value)...)
		}
		return diffs
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			diffs = append(diffs, lacks(fmt.Sprintf("%s[%d]", path, i), g[i], w[i])...)
		}
		return diffs
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return []string{fmt.Sprintf("%s: got %s, want %s", path, encoded(got), encoded(want))}
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}
