package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
)

// A serverReplay has a server go over the requests that it has recorded.
type serverReplay struct {
	on, candidate, keep bool
	limit               int32
	kubeconfig          string
	timeout             time.Duration
}

func (s *serverReplay) flags(c *cobra.Command) {
	c.Flags().BoolVar(&s.on, "server", false, "let the server replay what it has recorded")
	c.Flags().BoolVar(&s.candidate, "candidate", false, "with --server: ask the plugin's candidate")
	c.Flags().BoolVar(&s.keep, "keep", false, "with --server: leave the PolicyScan and its report there")
	c.Flags().Int32Var(&s.limit, "limit", 0, "with --server: the most requests; 0 is the server's default")
	c.Flags().StringVar(&s.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "with --server: path of the kubeconfig (default: $KUBECONFIG)")
	c.Flags().DurationVar(&s.timeout, "timeout", 2*time.Minute, "with --server: how long to wait")
}

func (s *serverReplay) run(ctx context.Context, out io.Writer, plugin string, show int) error {
	if s.kubeconfig == "" {
		return errors.New("no kubeconfig: give --kubeconfig or set KUBECONFIG")
	}
	rest, err := client.FromKubeconfig(s.kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	report, err := s.scan(ctx, rest, plugin)
	if err != nil {
		return err
	}
	printReport(out, report, show)
	return nil
}

// scan makes a PolicyScan, waits until it is done, and returns its report.
func (s *serverReplay) scan(ctx context.Context, rest *client.REST, plugin string) (*pluginsv1.PolicyReport, error) {
	scans := client.For[*pluginsv1.PolicyScan](rest)
	scan, err := scans.Create(ctx, &pluginsv1.PolicyScan{
		ObjectMeta: metav1.ObjectMeta{Name: "replay-" + plugin + "-" + strconv.FormatInt(time.Now().UnixMilli(), 36)},
		Spec:       pluginsv1.PolicyScanSpec{Plugin: plugin, Candidate: s.candidate, Source: pluginsv1.ScanRecorded, Limit: s.limit},
	})
	if err != nil {
		return nil, fmt.Errorf("create a PolicyScan: %w", err)
	}
	if !s.keep {
		defer func() {
			gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = scans.Delete(gone, "", scan.Name, metav1.DeleteOptions{}) // the report is printed; the scan can stay
		}()
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for scan.Status.Phase != "Done" {
		if scan.Status.Phase == "Failed" {
			return nil, fmt.Errorf("the scan failed: %s", scan.Status.Message)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the PolicyScan %q: %w", scan.Name, ctx.Err())
		}
		if scan, err = scans.Get(ctx, "", scan.Name); err != nil {
			return nil, err
		}
	}
	return client.For[*pluginsv1.PolicyReport](rest).Get(ctx, "", scan.Name)
}

func printReport(out io.Writer, r *pluginsv1.PolicyReport, show int) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "RESULT\tREQUESTS\npass\t%d\nfail\t%d\nwarn\t%d\nerror\t%d\nskip\t%d\n", r.Summary.Pass, r.Summary.Fail, r.Summary.Warn, r.Summary.Error, r.Summary.Skip)
	flush(w)
	fmt.Fprintln(out)
	for i, result := range r.Results {
		if i == show {
			fmt.Fprintln(out, "… and more, see --show")
			return
		}
		for _, o := range result.Resources {
			fmt.Fprintf(out, "%s %s/%s ", o.Kind, o.Namespace, o.Name)
		}
		fmt.Fprintf(out, "%s\n    %s: %s\n", result.Properties["operation"], result.Result, result.Message)
	}
}
