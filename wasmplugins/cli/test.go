package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

const casesHelp = `A file of cases holds YAML documents:

  name: without the label
  phase: validate            # or mutate
  settings: {label: team}
  request:                   # the fields of an AdmissionRequest
    operation: CREATE
    object: {metadata: {name: a}}
  host:                      # the calls that the plugin may make; without
  - call: kube.get           # them it has no capability
    request: {name: a}       # what its request must contain
    reply: {kind: Pod}       # or error: text, or denied: true
  want:                      # what is not named may be anything
    allowed: false
    message: the label team is missing

Further fields of want: code, warnings, annotations, object (after the change),
failure (such as Trapped or DeadlineExceeded), invalidSettings (part of the text).

With point: authorize, authenticate, convert, serve or reconcile the request is
the input of that function, and want.reply is what its reply must contain. With
point: schedule the request is a pod and nodes are Node objects; the plugin is
the scheduler's only one, and want.reply is of
  {node: n1, message: "", nodes: {n1: {score: 100}, n2: {reasons: [no disk]}}}

A file whose name ends in .jsonl holds requests that a server has recorded: a
JSON object on each line, an AdmissionRequest of admission.k8s.io/v1. A plugin
passes if it answers each, whatever the answer is; see "proa plugin replay".`

func testCommand() *cobra.Command {
	var in recordings
	c := &cobra.Command{
		Use:     "test FILE CASES...",
		Short:   "Run a plugin on cases with expected answers, or on recorded requests",
		Long:    "Run a plugin on cases and compare the answers, offline, with the server's engine\nand limits.\n\n" + casesHelp,
		Example: "  proa plugin test my-policy.wasm my-policy/cases.yaml\n  proa plugin test my-policy.wasm recorded.jsonl --phase validate",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			cases, err := in.readAll(c.Context(), args[1:])
			if err != nil {
				return err
			}
			e, code, err := load(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer e.Close() //nolint:errcheck // frees memory only
			defer code.Close()
			failed := 0
			for _, tc := range cases {
				begin := time.Now()
				var log bytes.Buffer
				usage, diffs := tc.run(c.Context(), e, code, &log)
				if len(diffs) == 0 {
					fmt.Fprintf(c.OutOrStdout(), "ok    %s (%v, %d units)\n", tc.Name, time.Since(begin).Round(time.Microsecond), usage.Fuel)
					continue
				}
				failed++
				fmt.Fprintf(c.OutOrStdout(), "FAIL  %s\n      %s\n", tc.Name, strings.Join(diffs, "\n      "))
				if log.Len() > 0 {
					fmt.Fprintf(c.OutOrStdout(), "      its log:\n%s\n", strings.TrimSuffix(log.String(), "\n"))
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d cases failed", failed, len(cases))
			}
			return nil
		},
	}
	in.flags(c)
	return c
}

// run calls the plugin and returns what is not as wanted.
func (c *testCase) run(ctx context.Context, e *engine.Engine, code *engine.Code, log *bytes.Buffer) (engine.Usage, []string) {
	a, err := c.start(ctx, e, code, log)
	if err != nil {
		if w := c.Want.InvalidSettings; w != "" && errors.Is(err, abi.ErrSettings) && strings.Contains(err.Error(), w) {
			return engine.Usage{}, nil
		}
		return engine.Usage{}, []string{err.Error()}
	}
	defer a.close()
	if c.Want.InvalidSettings != "" {
		return engine.Usage{}, []string{"the settings are taken"}
	}
	usage, err := a.ask(ctx)
	if err != nil {
		if string(engine.ReasonOf(err)) == c.Want.Failure {
			return usage, nil
		}
		return usage, []string{err.Error()}
	}
	if c.Want.Failure != "" {
		return usage, []string{"the plugin answered, want the failure " + c.Want.Failure}
	}
	if a.reply != nil {
		r, err := c.request()
		if err != nil {
			return usage, []string{err.Error()}
		}
		return usage, c.Want.compare(r.Object, a.reply)
	}
	if len(c.Want.Reply) == 0 {
		return usage, nil
	}
	return usage, missing("reply", a.other, c.Want.Reply)
}

func (w *want) compare(object []byte, r *abi.AdmissionReply) (diffs []string) {
	differ := func(what string, got, want any) {
		diffs = append(diffs, fmt.Sprintf("%s: got %v, want %v", what, got, want))
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
	if w.Annotations != nil && !maps.Equal(r.AuditAnnotations, w.Annotations) {
		differ("annotations", r.AuditAnnotations, w.Annotations)
	}
	if len(w.Object) == 0 {
		return diffs
	}
	got, err := changed(object, r)
	if err != nil {
		return append(diffs, err.Error())
	}
	if !jsonpatch.Equal(got, w.Object) {
		differ("object", string(got), string(w.Object))
	}
	return diffs
}

// changed returns the object as the reply makes it.
func changed(object []byte, r *abi.AdmissionReply) ([]byte, error) {
	if r.Object != nil {
		return r.Object, nil
	}
	if r.Patch == nil {
		return object, nil
	}
	patch, err := jsonpatch.DecodePatch(r.Patch)
	if err != nil {
		return nil, fmt.Errorf("the patch is none: %w", err)
	}
	got, err := patch.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("the patch cannot be applied: %w", err)
	}
	return got, nil
}
