package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// A testCase is a document of a file of cases, or a line of a recording.
type testCase struct {
	Name string `json:"name"`
	// Point is what the plugin is asked; admit is the default.
	Point    string          `json:"point,omitempty"`
	Phase    string          `json:"phase,omitempty"` // of admit: mutate or validate, the default
	Settings json.RawMessage `json:"settings,omitempty"`
	Host     []hostCall      `json:"host,omitempty"`
	// Request is an AdmissionRequest, or the input of the point.
	Request json.RawMessage `json:"request,omitempty"`
	// Nodes are those of the point schedule; its request is the pod.
	Nodes []json.RawMessage `json:"nodes,omitempty"`
	Want  want              `json:"want"`

	limits engine.Limits
}

// want is what the answer must have; what is not set may be anything.
type want struct {
	Allowed *bool  `json:"allowed,omitempty"`
	Message string `json:"message,omitempty"` // the whole message
	Code    int32  `json:"code,omitempty"`
	// Object is the object after the change.
	Object      json.RawMessage   `json:"object,omitempty"`
	Warnings    []string          `json:"warnings,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Reply is what the reply of another point than admit must contain.
	Reply json.RawMessage `json:"reply,omitempty"`
	// Failure is the reason of a call without an answer, such as Trapped.
	Failure string `json:"failure,omitempty"`
	// InvalidSettings is part of the text with which settings are refused.
	InvalidSettings string `json:"invalidSettings,omitempty"`
}

// readDocuments reads the documents of a YAML or JSON file.
func readDocuments(f io.ReadCloser) ([]testCase, error) {
	docs := utilyaml.NewDocumentDecoder(f)
	var all []testCase
	buf := make([]byte, 8<<20)
	for n := 1; ; n++ {
		size, err := docs.Read(buf)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if len(bytes.TrimSpace(buf[:size])) == 0 {
			continue
		}
		var c testCase
		if err := yaml.UnmarshalStrict(buf[:size], &c); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if c.Name == "" {
			c.Name = fmt.Sprintf("case %d", n)
		}
		if c.Phase == "" {
			c.Phase = abi.PhaseValidate
		}
		all = append(all, c)
	}
}

// readRecording reads requests that a server has recorded: an AdmissionRequest
// on each line. What they were answered is not in it, so every answer is good.
func readRecording(r io.Reader, phase string) ([]testCase, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), 16<<20)
	var all []testCase
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		q, err := abi.ParseAdmissionRequest(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if q.Operation == "" {
			return nil, fmt.Errorf("line %d: no AdmissionRequest: it has no operation", n)
		}
		all = append(all, testCase{Name: subject(q), Phase: phase, Request: bytes.Clone(line)})
	}
	return all, lines.Err()
}

// subject tells what a request is about, in words.
func subject(q *abi.AdmissionRequest) string {
	s := q.Operation + " " + q.Resource
	if q.SubResource != "" {
		s += "/" + q.SubResource
	}
	if q.Namespace != "" {
		s += " " + q.Namespace + "/" + q.Name
	} else if q.Name != "" {
		s += " " + q.Name
	}
	if q.Username != "" {
		s += " by " + q.Username
	}
	return s
}

// request is what the guest is asked about at the point admit.
func (c *testCase) request() (*abi.AdmissionRequest, error) {
	request := c.Request
	if len(request) == 0 {
		request = []byte("{}")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, request); err != nil {
		return nil, fmt.Errorf("the request is no JSON: %w", err)
	}
	return abi.ParseAdmissionRequest(compact.Bytes())
}

// input is what the guest gets at another point.
func (c *testCase) input() ([]byte, error) {
	members := map[string]json.RawMessage{}
	if len(c.Request) > 0 {
		if err := json.Unmarshal(c.Request, &members); err != nil {
			return nil, fmt.Errorf("the request is no JSON object: %w", err)
		}
	}
	members["apiVersion"] = json.RawMessage(`"` + abi.Native + `"`)
	return json.Marshal(members)
}
