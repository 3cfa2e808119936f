package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
)

// A testCase is a document of a file of cases.
type testCase struct {
	Name     string          `json:"name"`
	Phase    string          `json:"phase,omitempty"` // mutate or validate, the default
	Settings json.RawMessage `json:"settings,omitempty"`
	Request  json.RawMessage `json:"request,omitempty"`
	Want     want            `json:"want"`
}

// want is what the answer must have; what is not set may be anything.
type want struct {
	Allowed *bool  `json:"allowed,omitempty"`
	Message string `json:"message,omitempty"` // the whole message
	Code    int32  `json:"code,omitempty"`
	// Object is the object after the change.
	Object   json.RawMessage `json:"object,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	// Failure is the reason of a call without an answer, such as Trapped.
	Failure string `json:"failure,omitempty"`
	// InvalidSettings is part of the text with which settings are refused.
	InvalidSettings string `json:"invalidSettings,omitempty"`
}

// readCases reads the documents of a YAML or JSON file.
func readCases(file string) ([]testCase, error) {
	f, err := os.Open(file) // the user's file
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // was only read
	docs := utilyaml.NewDocumentDecoder(f)
	var all []testCase
	buf := make([]byte, 8<<20)
	for n := 1; ; n++ {
		size, err := docs.Read(buf)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, n, err)
		}
		var c testCase
		if err := yaml.UnmarshalStrict(buf[:size], &c); err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, n, err)
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

// input is what the guest is asked about.
func (c *testCase) input() (*abi.AdmissionRequest, error) {
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

func (c *testCase) object() []byte {
	var r struct {
		Object json.RawMessage `json:"object"`
	}
	if json.Unmarshal(c.Request, &r) != nil {
		return nil
	}
	return r.Object
}

func testCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE CASES...",
		Short: "Run a plugin on cases with expected answers",
		Long: `Run a plugin on cases and compare the answers.

A file of cases holds YAML documents:
  name: without the label
  phase: validate            # or mutate
  settings: {label: team}
  request:                   # the fields of an AdmissionRequest
    operation: CREATE
    object: {metadata: {name: a}}
  want:                      # what is not named may be anything
    allowed: false
    message: the label team is missing
Further fields of want: code, warnings, object (after the change), failure (such
as Trapped or DeadlineExceeded), invalidSettings (part of the text).`,
		Example: "  proa plugin test my-policy.wasm my-policy/cases.yaml",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			e, code, err := load(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer e.Close() //nolint:errcheck // frees memory only
			defer code.Close()
			failed, total := 0, 0
			for _, file := range args[1:] {
				cases, err := readCases(file)
				if err != nil {
					return err
				}
				for _, tc := range cases {
					total++
					begin := time.Now()
					usage, diffs := tc.run(c.Context(), e, code)
					if len(diffs) == 0 {
						fmt.Fprintf(c.OutOrStdout(), "ok    %s (%v, %d units)\n", tc.Name, time.Since(begin).Round(time.Microsecond), usage.Fuel)
						continue
					}
					failed++
					fmt.Fprintf(c.OutOrStdout(), "FAIL  %s\n      %s\n", tc.Name, strings.Join(diffs, "\n      "))
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d cases failed", failed, total)
			}
			return nil
		},
	}
}

// run calls the plugin and returns what is not as wanted.
func (c *testCase) run(ctx context.Context, e *engine.Engine, code *engine.Code) (engine.Usage, []string) {
	p, err := native.Start(ctx, e, code, native.Config{Name: c.Name, Settings: c.Settings, Instances: 1})
	if err != nil {
		if w := c.Want.InvalidSettings; w != "" && errors.Is(err, abi.ErrSettings) && strings.Contains(err.Error(), w) {
			return engine.Usage{}, nil
		}
		return engine.Usage{}, []string{err.Error()}
	}
	defer p.Close()
	if c.Want.InvalidSettings != "" {
		return engine.Usage{}, []string{"the settings are taken"}
	}
	input, err := c.input()
	if err != nil {
		return engine.Usage{}, []string{err.Error()}
	}
	reply, usage, err := p.Admit(ctx, engine.Call{Seed: c.Name}, c.Phase, input)
	if err != nil {
		if string(engine.ReasonOf(err)) == c.Want.Failure {
			return usage, nil
		}
		return usage, []string{err.Error()}
	}
	return usage, c.Want.compare(c.object(), reply)
}

func (w *want) compare(object []byte, r *abi.AdmissionReply) (diffs []string) {
	differ := func(what string, got, want any) {
		diffs = append(diffs, fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
	if w.Failure != "" {
		diffs = append(diffs, "the plugin answered, want the failure "+w.Failure)
	}
	if w.Allowed != nil && r.Allowed != *w.Allowed {
		differ("allowed", r.Allowed, *w.Allowed)
	}
	if w.Message != "" && r.Message != w.Message {
		differ("message", fmt.Sprintf("%q", r.Message), fmt.Sprintf("%q", w.Message))
	}
	if w.Code != 0 && r.Code != w.Code {
		differ("code", r.Code, w.Code)
	}
	if w.Warnings != nil && !slices.Equal(r.Warnings, w.Warnings) {
		differ("warnings", r.Warnings, w.Warnings)
	}
	if len(w.Object) == 0 {
		return diffs
	}
	got := object
	if r.Object != nil {
		got = r.Object
	}
	if r.Patch != nil {
		patch, err := jsonpatch.DecodePatch(r.Patch)
		if err == nil {
			got, err = patch.Apply(object)
		}
		if err != nil {
			return append(diffs, "the patch cannot be applied: "+err.Error())
		}
	}
	if !jsonpatch.Equal(got, w.Object) {
		differ("object", string(got), string(w.Object))
	}
	return diffs
}
