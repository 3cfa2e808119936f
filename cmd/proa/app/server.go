package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/proa-project/proa/cmd/proa/controlplane"
)

// adminKubeconfig is the file in the data directory that has all rights.
const adminKubeconfig = "admin.kubeconfig"

// defaultDataDir is where state goes if nobody says: a system directory for
// root, the user's data directory otherwise.
func defaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/proa"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "proa")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "proa-data"
	}
	return filepath.Join(home, ".local", "share", "proa")
}

// serverFlags adds the flags of the control plane, which server and up share.
func serverFlags(fs *pflag.FlagSet, c *controlplane.Config) {
	fs.StringVar(&c.DataDir, "data-dir", defaultDataDir(), "directory of all state: storage, keys, kubeconfigs, compiled plugins")
	fs.StringVar(&c.Listen, "listen", "127.0.0.1:6443", "address to serve on; port 0 picks one, see the kubeconfig")
	fs.StringSliceVar(&c.TLSNames, "tls-san", nil, "more host names and addresses for the serving certificate")
	fs.StringSliceVar(&c.Etcd.Endpoints, "etcd-endpoints", nil, "URLs of an external etcd cluster; embedded etcd if empty")
	fs.StringVar(&c.Etcd.CAFile, "etcd-cafile", "", "CA of the external etcd cluster")
	fs.StringVar(&c.Etcd.CertFile, "etcd-certfile", "", "client certificate for the external etcd cluster")
	fs.StringVar(&c.Etcd.KeyFile, "etcd-keyfile", "", "key of --etcd-certfile")
	fs.IntVar(&c.SimulateNodes, "simulate-nodes", 0, "number of simulated nodes, which run pods without containers")
	fs.StringSliceVar(&c.TrustedKeys, "plugin-trusted-keys", nil, "PEM files of public keys (Ed25519, ECDSA P-256), one of which must have signed each plugin module; without any, none need be signed")
	fs.StringSliceVar(&c.ExemptNamespaces, "plugin-exempt-namespaces", []string{"kube-system"}, "namespaces in which admission plugins have no say")
	fs.StringSliceVar(&c.PluginHosts, "plugin-http-hosts", nil, "hosts, as HOST or HOST:PORT, to which plugins may be allowed to send HTTP requests; none by default")
	fs.BoolVar(&c.BreakGlass, "break-glass", false, "call no admission plugin, webhook or policy; a file "+controlplane.BreakGlassFile+" in the data directory does the same while it is there")
	fs.StringSliceVar(&c.Controllers, "controllers", []string{"*"}, "controllers to run: * is all, -NAME leaves one out; known: "+strings.Join(controlplane.ControllerNames(), ", "))
}

func (g *globals) server() *cobra.Command {
	c := controlplane.Config{Version: g.version}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the control plane: API server, controllers and scheduler",
		Long: `Run the control plane: API server with embedded etcd, controllers and scheduler.

Before it is ready it writes DATA-DIR/admin.kubeconfig (mode 0600), which has
all rights. Agents join with a token from "proa token create".`,
		Example: `  proa server --data-dir /var/lib/proa --listen 0.0.0.0:6443 --tls-san cp.example.com
  proa server --data-dir ./data --listen 127.0.0.1:0 --simulate-nodes 5000
  proa server --data-dir ./data --etcd-endpoints https://127.0.0.1:2379 --etcd-cafile ca.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := g.logger()
			if err != nil {
				return err
			}
			c.Log = log
			cp, err := controlplane.Start(cmd.Context(), c)
			if err != nil {
				return unlessStopped(cmd.Context(), err)
			}
			return cp.Wait()
		},
	}
	serverFlags(cmd.Flags(), &c)
	return cmd
}

// unlessStopped returns the error of a start, but for that of one that was
// stopped before it was ready, as was wanted.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
