package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/native"
)

// A contender is something that judges recorded requests.
type contender interface {
	// Prepare gets a request ready, which is not measured.
	Prepare(r *abi.AdmissionRequest) (func(ctx context.Context) (outcome, error), error)
	Close()
}

func compareCommand() *cobra.Command {
	var in recordings
	var module, cel string
	var during time.Duration
	var show int
	hook := webhookConfig{}
	c := &cobra.Command{
		Use:   "compare RECORDING...",
		Short: "Measure a plugin, a CEL policy and a webhook that do the same",
		Long: `Ask a module, a ValidatingAdmissionPolicy and a webhook about the same recorded
requests, side by side, and print how long each takes, how much of this
process's CPU a request costs, and where they do not agree.

The file of --cel holds a ValidatingAdmissionPolicy, or a bare CEL expression that
has to be true. --webhook is the URL of any admission webhook; what its server
costs is not in the CPU, only what asking it does.`,
		Example: "  proa plugin compare recorded.jsonl --module p.wasm --cel policy.yaml --webhook https://127.0.0.1:8443/validate --insecure",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cases, err := in.read(c.Context(), args)
			if err != nil {
				return err
			}
			if len(cases) == 0 {
				return errors.New("the recording is empty")
			}
			var names []string
			var all []contender
			defer func() {
				for _, each := range all {
					each.Close()
				}
			}()
			add := func(name, what string, start func() (contender, error)) error {
				if what == "" {
					return nil
				}
				each, startErr := start()
				if startErr != nil {
					return fmt.Errorf("%s %s: %w", name, what, startErr)
				}
				names, all = append(names, name), append(all, each)
				return nil
			}
			err = errors.Join(
				add("module", module, func() (contender, error) { return newModuleContender(c.Context(), module, &cases[0]) }),
				add("cel", cel, func() (contender, error) { return newCELContender(c.Context(), cel) }),
				add("webhook", hook.url, func() (contender, error) { return hook.start() }),
			)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return errors.New("nothing to measure: give --module, --cel or --webhook")
			}
			return compare(c.Context(), c.OutOrStdout(), names, all, cases, during, show)
		},
	}
	in.flags(c)
	c.Flags().StringVar(&module, "module", "", "file of a module")
	c.Flags().StringVar(&cel, "cel", "", "file of a ValidatingAdmissionPolicy or an expression")
	hook.flags(c)
	c.Flags().DurationVar(&during, "for", 2*time.Second, "time to spend on each")
	c.Flags().IntVar(&show, "show", 10, "how many disagreements to list")
	return c
}

// compare measures the contenders and prints the figures.
func compare(ctx context.Context, out io.Writer, names []string, all []contender, cases []testCase, during time.Duration, show int) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\tP50\tP99\tCPU\tPASS\tCHANGED\tFAIL\tERROR")
	outcomes := make([][]outcome, len(all))
	for i, each := range all {
		m, err := measure(ctx, each, cases, during)
		if err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		outcomes[i] = m.outcomes
		counts := map[string]int{}
		for _, o := range m.outcomes {
			counts[o.result]++
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%d\t%d\t%d\t%d\n", names[i], m.at(.5), m.at(.99), m.cpu, counts[passes], counts[changes], counts[fails], counts[broken])
	}
	flush(w)
	printDisagreements(out, names, outcomes, cases, show)
	return nil
}

func printDisagreements(out io.Writer, names []string, outcomes [][]outcome, cases []testCase, show int) {
	if len(names) < 2 {
		return
	}
	var differ []int
	for i := range cases {
		for _, each := range outcomes[1:] {
			if each[i].result != outcomes[0][i].result {
				differ = append(differ, i)
				break
			}
		}
	}
	fmt.Fprintf(out, "\nThey do not agree on %d of %d requests.\n", len(differ), len(cases))
	for _, i := range differ[:min(show, len(differ))] {
		fmt.Fprintln(out, cases[i].Name)
		for k, name := range names {
			fmt.Fprintf(out, "    %s: %s\n", name, outcomes[k][i])
		}
	}
}

// A measurement is what a contender took and answered.
type measurement struct {
	sample
	cpu      time.Duration // of this process, for a request
	outcomes []outcome
}

// measure asks a contender about all requests, round and round.
func measure(ctx context.Context, each contender, cases []testCase, during time.Duration) (*measurement, error) {
	m := &measurement{outcomes: make([]outcome, len(cases))}
	asks := make([]func(context.Context) (outcome, error), len(cases))
	for i := range cases {
		r, err := cases[i].request()
		if err != nil {
			return nil, err
		}
		if asks[i], err = each.Prepare(r); err != nil {
			return nil, fmt.Errorf("%s: %w", cases[i].Name, err)
		}
		if m.outcomes[i], err = asks[i](ctx); err != nil { // warms, too
			return nil, fmt.Errorf("%s: %w", cases[i].Name, err)
		}
	}
	before, begin := cpuTime(), time.Now()
	for i := 0; i == 0 || time.Since(begin) < during; i++ {
		at := time.Now()
		if _, err := asks[i%len(asks)](ctx); err != nil {
			return nil, err
		}
		m.took = append(m.took, time.Since(at))
	}
	m.cpu = ((cpuTime() - before) / time.Duration(len(m.took))).Round(10 * time.Nanosecond)
	slices.Sort(m.took)
	return m, nil
}

// A moduleContender asks a module.
type moduleContender struct {
	j     judge
	phase string
	close func()
}

func newModuleContender(ctx context.Context, file string, like *testCase) (contender, error) {
	e, code, err := load(ctx, file)
	if err != nil {
		return nil, err
	}
	j, err := startJudge(ctx, e, code, native.Config{Name: "module", Settings: like.Settings, Limits: like.limits, Instances: 1})
	if err != nil {
		code.Close()
		_ = e.Close() // frees memory only
		return nil, err
	}
	return &moduleContender{j: j, phase: like.Phase, close: func() {
		j.Close()
		code.Close()
		_ = e.Close() // frees memory only
	}}, nil
}

func (m *moduleContender) Prepare(r *abi.AdmissionRequest) (func(context.Context) (outcome, error), error) {
	call := callOf(&testCase{Name: r.UID})
	return func(ctx context.Context) (outcome, error) {
		reply, _, err := m.j.Admit(ctx, call, m.phase, r)
		if ctx.Err() != nil {
			return outcome{}, ctx.Err()
		}
		return judged(r.Object, reply, err), nil
	}, nil
}

func (m *moduleContender) Close() { m.close() }
