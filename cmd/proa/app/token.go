package app

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/pki"
)

func (g *globals) token() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make the tokens that agents join with",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(g.tokenCreate())
	return cmd
}

func (g *globals) tokenCreate() *cobra.Command {
	var kubeconfig, dataDir string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a join token and print the command that uses it",
		Long: `Create a join token, kept as a bootstrap token Secret in kube-system, and print
the agent's command line with it.`,
		Example: `  proa token create --data-dir /var/lib/proa
  proa token create --kubeconfig admin.kubeconfig --ttl 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kubeconfig == "" {
				kubeconfig = filepath.Join(dataDir, adminKubeconfig)
			}
			rest, err := client.FromKubeconfig(kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig: %w", err)
			}
			secret, token, err := authn.NewJoinSecret(time.Now(), ttl)
			if err != nil {
				return err
			}
			if _, err = client.For[*corev1.Secret](rest).Create(cmd.Context(), secret); err != nil {
				return fmt.Errorf("create token: %w", err)
			}
			server, hash, err := clusterOf(kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "proa agent --server %s --join-token %s --ca-hash %s\n", server, token, hash)
			return err
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of an administrator (default DATA-DIR/"+adminKubeconfig+")")
	cmd.Flags().StringVar(&dataDir, "data-dir", defaultDataDir(), "the server's directory")
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long the token can be used")
	return cmd
}

// clusterOf returns the server of a kubeconfig and the hash of its CA.
func clusterOf(kubeconfig string) (server, hash string, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", "", err
	}
	ca, err := pki.ParseCertificate(config.CAData)
	if err != nil {
		return "", "", err
	}
	return config.Host, pki.Hash(ca), nil
}
