package app

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/proa-project/proa/nodeagent/cri"
)

func (g *globals) image() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Bring images onto this host",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(g.imageImport())
	return cmd
}

func (g *globals) imageImport() *cobra.Command {
	var endpoint string
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Load the images of docker or OCI archives into this host's containerd",
		Example: `  docker save my/app:1 -o app.tar && proa image import app.tar
  proa image import --runtime-endpoint unix:///run/containerd/containerd.sock *.tar`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			runtime, err := cri.Dial(cri.Config{Endpoint: endpoint})
			if err != nil {
				return err
			}
			defer runtime.Close() //nolint:errcheck // the process ends
			for _, file := range files {
				f, err := os.Open(file) // the user's own choice
				if err != nil {
					return err
				}
				names, err := runtime.Import(cmd.Context(), f)
				f.Close() //nolint:errcheck // only read
				if err != nil {
					return fmt.Errorf("import %s: %w", file, err)
				}
				for _, name := range names {
					fmt.Fprintln(cmd.OutOrStdout(), name)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&endpoint, "runtime-endpoint", cri.DefaultEndpoint, "containerd's socket")
	return cmd
}
