package app

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/cmd/proa/controlplane"
)

func (g *globals) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary and of the Kubernetes API it serves",
		Example: "  proa version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "proa %s\nkubernetes API %s\n%s %s/%s\n",
				g.version, controlplane.KubernetesVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
