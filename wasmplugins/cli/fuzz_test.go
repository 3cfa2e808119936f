package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

// FuzzCases: whatever a file of cases or a recording has in it, it is an error
// or cases that can be asked.
func FuzzCases(f *testing.F) {
	f.Add([]byte("name: x\nrequest: {operation: CREATE}\n---\npoint: convert\nrequest: []\n"))
	f.Add([]byte(`{"operation":"CREATE","object":{"a":1}}` + "\n\n{}"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		recorded, _ := readRecording(bytes.NewReader(b), "mutate")
		cases, _ := readDocuments(io.NopCloser(bytes.NewReader(b)))
		for _, c := range append(recorded, cases...) {
			_, _ = c.request()
			_, _ = c.input()
		}
	})
}

// FuzzMissing: a JSON has everything that it has.
func FuzzMissing(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}]}`), []byte(`{"a":[1,{}]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		_ = missing("", a, b)
		if d := missing("", a, a); len(d) > 0 && json.Valid(a) {
			t.Errorf("%s lacks of itself: %v", a, d)
		}
	})
}
