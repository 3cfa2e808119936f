package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/proa-project/proa/cmd/proa/controlplane"
	"github.com/proa-project/proa/nodeagent"
	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/join"
)

// agentFlags are what the node agent needs to know, as an agent of its own and
// as a part of "proa up".
type agentFlags struct {
	dataDir      string
	runtime      string
	nodeName     string
	nodeIPs      []string
	cgroupParent string
	labels       map[string]string
	clusterDNS   []string
}

func (f *agentFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.runtime, "runtime-endpoint", cri.DefaultEndpoint, "socket of the container runtime (CRI v1)")
	fs.StringVar(&f.nodeName, "node-name", "", "name of the node (default: the host's name)")
	fs.StringSliceVar(&f.nodeIPs, "node-ip", nil, "addresses of the node, the first for the server to connect to (default: the one that reaches the server)")
	fs.StringVar(&f.cgroupParent, "cgroup-parent", "", "cgroup below which pods' cgroups are made (default: /kubepods)")
	fs.StringToStringVar(&f.labels, "node-labels", nil, "labels that the node registers with")
	fs.StringSliceVar(&f.clusterDNS, "cluster-dns", nil, "name servers of pods (default: the host's)")
}

// name returns the node's name.
func (f *agentFlags) name() (string, error) {
	if f.nodeName != "" {
		return f.nodeName, nil
	}
	host, err := os.Hostname()
	return strings.ToLower(host), err
}

// addresses returns the node's addresses; without any given, the one from
// which the server is reached.
func (f *agentFlags) addresses(ctx context.Context, server string) ([]string, error) {
	if len(f.nodeIPs) > 0 {
		return f.nodeIPs, nil
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	// A UDP "connection" sends nothing: it only picks the route.
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", u.Host)
	if err != nil {
		return nil, fmt.Errorf("find the address that reaches the server; give --node-ip: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return []string{host}, err
}

func (g *globals) agent() *cobra.Command {
	var flags agentFlags
	var server, token, hash string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent of a node: pods become containers on this host",
		Long: `Run the agent of a node. It joins with a token the first time, then uses the
certificates in its data directory. It needs root and a container runtime with
CRI v1, such as containerd. Containers go on running while the agent is away.`,
		Example: `  # On the server
  proa token create
  # On the host, with what it printed
  proa agent --server https://cp.example.com:6443 --join-token ID.SECRET --ca-hash sha256:...`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := g.logger()
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), &flags, join.Config{Server: server, Token: token, CAHash: hash, Log: log}, g.version)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&server, "server", "", "URL of the API server")
	fs.StringVar(&token, "join-token", "", "token from \"proa token create\", for the first start")
	fs.StringVar(&hash, "ca-hash", "", "hash of the cluster's CA, as \"proa token create\" prints it")
	fs.StringVar(&flags.dataDir, "data-dir", filepath.Join(defaultDataDir(), "agent"), "directory of certificates, volumes and logs")
	flags.add(fs)
	cobra.CheckErr(cmd.MarkFlagRequired("server"))
	return cmd
}

// runAgent joins the cluster and runs the agent until ctx is done.
func runAgent(ctx context.Context, flags *agentFlags, jc join.Config, version string) error {
	var err error
	if jc.NodeName, err = flags.name(); err != nil {
		return err
	}
	if jc.NodeIPs, err = flags.addresses(ctx, jc.Server); err != nil {
		return err
	}
	jc.Dir = filepath.Join(flags.dataDir, "pki")
	log := jc.Log
	identity, err := join.Node(ctx, jc)
	if err != nil {
		return err
	}
	rest, err := identity.REST()
	if err != nil {
		return err
	}
	runtime, err := cri.Dial(cri.Config{Endpoint: flags.runtime})
	if err != nil {
		return err
	}
	defer runtime.Close() //nolint:errcheck // the process ends
	agent, err := nodeagent.New(nodeagent.Config{
		REST:         rest,
		Runtime:      runtime,
		NodeName:     jc.NodeName,
		NodeIPs:      jc.NodeIPs,
		RootDir:      flags.dataDir,
		TLS:          identity.TLS(),
		CgroupParent: flags.cgroupParent,
		Labels:       flags.labels,
		ClusterDNS:   flags.clusterDNS,
		Version:      controlplane.KubernetesVersion + "+proa-" + version,
		Log:          named(log, "agent"),
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return identity.Renew(ctx) })
	group.Go(func() error { return agent.Run(ctx) })
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func named(log zerolog.Logger, component string) zerolog.Logger {
	return log.With().Str("component", component).Logger()
}
