package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/abi"
)

// The outcomes of a replayed request.
const (
	passes  = "pass"
	changes = "changed"
	fails   = "fail"
	broken  = "error" // no answer
)

func replayCommand() *cobra.Command {
	var in recordings
	var against string
	var show int
	var server serverReplay
	c := &cobra.Command{
		Use:   "replay FILE RECORDING...",
		Short: "Show what a plugin would have done to recorded requests",
		Long: `Ask a plugin about requests that a server has recorded (a JSON object on each
line, an AdmissionRequest of admission.k8s.io/v1), and print how many it lets
pass, changes and refuses. Nothing is sent anywhere.

With --against it is compared with another version of the module: what the two
answer differently is listed.

With --server the argument is the name of an AdmissionPlugin, in whatever mode:
the server goes over the requests that it has recorded, with a PolicyScan, and
its PolicyReport is printed.`,
		Example: `  kubectl get --raw /proa/v1/recorded-requests > recorded.jsonl
  proa plugin replay my-policy.wasm recorded.jsonl --plugin my-policy/plugin.yaml
  proa plugin replay v2.wasm recorded.jsonl --against v1.wasm
  proa plugin replay --server require-team --candidate`,
		Args: func(_ *cobra.Command, args []string) error {
			if server.on && len(args) != 1 {
				return errors.New("--server takes one argument, the name of an AdmissionPlugin")
			}
			if !server.on && len(args) < 2 {
				return errors.New("a module and a recording are needed")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if server.on {
				return server.run(c.Context(), c.OutOrStdout(), args[0], show)
			}
			cases, err := in.read(c.Context(), args[1:])
			if err != nil {
				return err
			}
			outcomes, err := replay(c.Context(), args[0], cases)
			if err != nil {
				return err
			}
			if against == "" {
				printOutcomes(c.OutOrStdout(), cases, outcomes, show)
				return nil
			}
			before, err := replay(c.Context(), against, cases)
			if err != nil {
				return err
			}
			printDifferences(c.OutOrStdout(), cases, before, outcomes, show)
			return nil
		},
	}
	in.flags(c)
	c.Flags().StringVar(&against, "against", "", "another version of the module")
	c.Flags().IntVar(&show, "show", 20, "how many requests to list")
	server.flags(c)
	return c
}

// An outcome is what a plugin makes of a request.
type outcome struct {
	result  string
	message string
	object  []byte // if it is changed
}

// replay asks a module about each request.
func replay(ctx context.Context, file string, cases []testCase) ([]outcome, error) {
	e, code, err := load(ctx, file)
	if err != nil {
		return nil, err
	}
	defer e.Close() //nolint:errcheck // frees memory only
	defer code.Close()
	outcomes := make([]outcome, len(cases))
	if len(cases) == 0 {
		return outcomes, nil
	}
	j, err := startJudge(ctx, e, code, cases[0].config(nil)) // a recording has the same settings throughout
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer j.Close()
	for i := range cases {
		r, err := cases[i].request()
		if err != nil {
			return nil, err
		}
		reply, _, err := j.Admit(ctx, callOf(&cases[i]), cases[i].Phase, r)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		outcomes[i] = judged(r.Object, reply, err)
	}
	return outcomes, nil
}

// judged puts an answer into words.
func judged(object []byte, reply *abi.AdmissionReply, err error) outcome {
	if err != nil {
		return outcome{result: broken, message: err.Error()}
	}
	if !reply.Allowed {
		return outcome{result: fails, message: reply.Message}
	}
	got, err := changed(object, reply)
	if err != nil {
		return outcome{result: broken, message: err.Error()}
	}
	if len(got) == 0 || jsonpatch.Equal(got, object) {
		return outcome{result: passes, message: strings.Join(reply.Warnings, "; ")}
	}
	diff, err := jsonpatch.CreateMergePatch(object, got)
	if err != nil {
		return outcome{result: broken, message: err.Error()}
	}
	return outcome{result: changes, message: string(diff), object: got}
}

// same reports whether two versions do the same to a request.
func (o outcome) same(p outcome) bool {
	return o.result == p.result && (o.result != fails || o.message == p.message) && (o.result != changes || jsonpatch.Equal(o.object, p.object))
}

func (o outcome) String() string {
	if o.message == "" {
		return o.result
	}
	return o.result + ": " + o.message
}

func printOutcomes(out io.Writer, cases []testCase, outcomes []outcome, show int) {
	counts := map[string]int{}
	for _, o := range outcomes {
		counts[o.result]++
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "RESULT\tREQUESTS")
	for _, result := range []string{passes, changes, fails, broken} {
		fmt.Fprintf(w, "%s\t%d\n", result, counts[result])
	}
	flush(w)
	fmt.Fprintln(out)
	for i, o := range outcomes {
		if o.result == passes {
			continue
		}
		if show--; show < 0 {
			fmt.Fprintln(out, "… and more, see --show")
			return
		}
		fmt.Fprintf(out, "%s\n    %s\n", cases[i].Name, o)
	}
}

func printDifferences(out io.Writer, cases []testCase, before, after []outcome, show int) {
	n := 0
	for i := range cases {
		if !before[i].same(after[i]) {
			n++
		}
	}
	fmt.Fprintf(out, "%d of %d requests are answered differently\n\n", n, len(cases))
	for i := range cases {
		if before[i].same(after[i]) {
			continue
		}
		if show--; show < 0 {
			fmt.Fprintln(out, "… and more, see --show")
			return
		}
		fmt.Fprintf(out, "%s\n  - %s\n  + %s\n", cases[i].Name, before[i], after[i])
	}
}

// flush ends a table; an output that cannot be written has nobody to tell.
func flush(w *tabwriter.Writer) { _ = w.Flush() }
