package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/cmd/proa/controlplane"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/nodeagent/join"
)

// defaultSimulated is how many nodes "proa up" simulates on a machine without
// a container runtime.
const defaultSimulated = 3

func (g *globals) up() *cobra.Command {
	c := controlplane.Config{Version: g.version}
	var flags agentFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process: control plane and this host's agent",
		Long: `Run everything in one process: the control plane, and, where there is a
container runtime, the agent of this host. Without one it says so and simulates
nodes, on which pods go through the same states without containers.`,
		Example: `  proa up
  proa up --data-dir ./proa-data --simulate-nodes 5000
  export KUBECONFIG=/var/lib/proa/admin.kubeconfig; kubectl get nodes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := g.logger()
			if err != nil {
				return err
			}
			c.Log = log
			why := noRuntime(flags.runtime)
			if why != "" && !cmd.Flags().Changed("simulate-nodes") {
				c.SimulateNodes = defaultSimulated
			}
			out := cmd.OutOrStdout()
			if why != "" {
				fmt.Fprintf(out, "No containers here: %s. %d simulated nodes.\n", why, c.SimulateNodes)
			}
			cp, err := controlplane.Start(cmd.Context(), c)
			if err != nil {
				return unlessStopped(cmd.Context(), err)
			}
			fmt.Fprintf(out, "Proa is ready at %s\n\n  export KUBECONFIG=%s\n\n", cp.URL, cp.Kubeconfig)
			if why != "" {
				return cp.Wait()
			}
			flags.dataDir = filepath.Join(c.DataDir, "agent")
			group, ctx := errgroup.WithContext(cmd.Context())
			group.Go(cp.Wait)
			group.Go(func() error {
				jc, err := joinSelf(ctx, cp)
				if err != nil {
					return err
				}
				jc.Log = log
				return runAgent(ctx, &flags, jc, g.version)
			})
			return group.Wait()
		},
	}
	serverFlags(cmd.Flags(), &c)
	flags.add(cmd.Flags())
	return cmd
}

// noRuntime returns why no pods can run here, or "".
func noRuntime(endpoint string) string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	socket := strings.TrimPrefix(endpoint, "unix://")
	if fi, err := os.Stat(socket); err != nil || fi.Mode()&os.ModeSocket == 0 {
		return "no container runtime at " + socket
	}
	return ""
}

// joinSelf makes a short-lived join token for the agent in this process, which
// joins as any other.
func joinSelf(ctx context.Context, cp *controlplane.ControlPlane) (join.Config, error) {
	rest, err := client.FromKubeconfig(cp.Kubeconfig)
	if err != nil {
		return join.Config{}, err
	}
	secret, token, err := authn.NewJoinSecret(time.Now(), 10*time.Minute)
	if err != nil {
		return join.Config{}, err
	}
	if _, err := client.For[*corev1.Secret](rest).Create(ctx, secret); err != nil {
		return join.Config{}, fmt.Errorf("create join token: %w", err)
	}
	return join.Config{Server: cp.URL, Token: token, CAHash: cp.Authority.Hash()}, nil
}
