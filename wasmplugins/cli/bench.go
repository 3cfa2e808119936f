package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
)

func benchCommand() *cobra.Command {
	var during time.Duration
	c := &cobra.Command{
		Use:     "bench FILE CASES...",
		Short:   "Measure a plugin on cases",
		Long:    "Call a plugin over and over with each case that has a request, and print how long that took (the median and the 99th percentile), the fuel, and the memory of an instance.",
		Example: "  proa plugin bench my-policy.wasm my-policy/cases.yaml --for 5s",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			e, code, err := load(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer e.Close() //nolint:errcheck // frees memory only
			defer code.Close()
			fmt.Fprintf(c.OutOrStdout(), "%-32s %10s %10s %10s %10s\n", "case", "p50", "p99", "fuel", "memory")
			for _, file := range args[1:] {
				cases, err := readCases(file)
				if err != nil {
					return err
				}
				for _, tc := range cases {
					if len(tc.Request) == 0 {
						continue
					}
					if err := tc.bench(c, e, code, during); err != nil {
						return fmt.Errorf("%s: %w", tc.Name, err)
					}
				}
			}
			return nil
		},
	}
	c.Flags().DurationVar(&during, "for", time.Second, "time to spend on each case")
	return c
}

func (c *testCase) bench(cmd *cobra.Command, e *engine.Engine, code *engine.Code, during time.Duration) error {
	p, err := native.Start(cmd.Context(), e, code, native.Config{Name: c.Name, Settings: c.Settings, Instances: 1})
	if err != nil {
		return err
	}
	defer p.Close()
	input, err := c.input()
	if err != nil {
		return err
	}
	var took []time.Duration
	var last engine.Usage
	for end := time.Now().Add(during); time.Now().Before(end); {
		begin := time.Now()
		_, u, err := p.Admit(cmd.Context(), engine.Call{Seed: c.Name}, c.Phase, input)
		if err != nil {
			return err
		}
		took = append(took, time.Since(begin))
		last = u
	}
	if len(took) == 0 {
		return errors.New("no time for a single call")
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(10 * time.Nanosecond)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%-32s %10v %10v %10d %6d KiB\n", c.Name, at(.5), at(.99), last.Fuel, last.Memory>>10)
	return nil
}
