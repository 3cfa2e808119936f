package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/engine"
)

func benchCommand() *cobra.Command {
	var during time.Duration
	var in recordings
	c := &cobra.Command{
		Use:   "bench FILE CASES...",
		Short: "Measure a plugin on cases or recorded requests",
		Long: `Call a plugin over and over with each case that has a request, and print how long
that took (the median and the 99th percentile), the fuel, the host calls, and the
memory of an instance. The files are those of "proa plugin test"; a recording is
measured request by request.`,
		Example: "  proa plugin bench my-policy.wasm my-policy/cases.yaml --for 5s",
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
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintln(w, "p50\tp99\tfuel\thost calls\tmemory\t  case")
			for _, tc := range cases {
				if len(tc.Request) == 0 || tc.Want.Failure != "" || tc.Want.InvalidSettings != "" {
					continue
				}
				s, err := tc.bench(c.Context(), e, code, during)
				if err != nil {
					return fmt.Errorf("%s: %w", tc.Name, err)
				}
				fmt.Fprintf(w, "%v\t%v\t%d\t%d\t%d KiB\t  %s\n", s.at(.5), s.at(.99), s.usage.Fuel, len(s.usage.HostCalls), s.usage.Memory>>10, tc.Name)
			}
			return w.Flush()
		},
	}
	c.Flags().DurationVar(&during, "for", time.Second, "time to spend on each case")
	in.flags(c)
	return c
}

// A sample is how long calls took.
type sample struct {
	took  []time.Duration // sorted
	usage engine.Usage    // of the last
}

// at returns the time within which a share of the calls was answered.
func (s *sample) at(share float64) time.Duration {
	return s.took[int(share*float64(len(s.took)-1))].Round(10 * time.Nanosecond)
}

// bench calls the plugin for a while.
func (c *testCase) bench(ctx context.Context, e *engine.Engine, code *engine.Code, during time.Duration) (*sample, error) {
	a, err := c.start(ctx, e, code, nil)
	if err != nil {
		return nil, err
	}
	defer a.close()
	s := &sample{}
	for end := time.Now().Add(during); time.Now().Before(end); {
		begin := time.Now()
		if s.usage, err = a.ask(ctx); err != nil {
			return nil, err
		}
		s.took = append(s.took, time.Since(begin))
	}
	if len(s.took) == 0 {
		return nil, errors.New("no time for a single call")
	}
	slices.Sort(s.took)
	return s, nil
}
