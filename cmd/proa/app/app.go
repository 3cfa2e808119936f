// Package app is the command line: flags in, the wired parts started.
package app

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/proa-project/proa/wasmplugins/cli"
)

// Streams are where commands write. Results go to Out, all else to Err.
type Streams struct {
	Out, Err io.Writer
}

// globals are the flags that every command has.
type globals struct {
	Streams
	version  string
	logLevel string
	logJSON  bool
}

// New returns the root command.
func New(streams Streams, version string) *cobra.Command {
	g := &globals{Streams: streams, version: version}
	root := &cobra.Command{
		Use:   "proa",
		Short: "A Kubernetes-compatible control plane in one binary",
		Long: `Proa is a Kubernetes-compatible control plane in one binary. kubectl, client-go
and Helm work against it as they are. Policies are WebAssembly modules kept in
the API: no webhook server, no certificate.

  proa up                     everything in one process, on this machine
  proa server, proa agent     the control plane, and one agent per host
  proa plugin                 make, test and upload WebAssembly policies`,
		Example: `  # Try it: control plane, scheduler, controllers and three simulated nodes
  proa up --data-dir ./proa-data --simulate-nodes 3
  kubectl --kubeconfig ./proa-data/admin.kubeconfig get nodes`,
		SilenceUsage: true,
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.PersistentFlags().StringVar(&g.logLevel, "log-level", "info", "least severe level that is logged: debug, info, warn, error")
	root.PersistentFlags().BoolVar(&g.logJSON, "log-json", false, "log JSON lines even to a terminal")
	root.AddCommand(g.up(), g.server(), g.agent(), g.token(), g.image(), cli.Command(), g.versionCommand())
	return root
}

// logger returns the logger that the flags ask for. It writes to Err.
func (g *globals) logger() (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(g.logLevel)
	if err != nil {
		return zerolog.Nop(), err
	}
	out := g.Err
	if f, ok := g.Err.(*os.File); ok && !g.logJSON && isTerminal(f) {
		out = zerolog.ConsoleWriter{Out: f, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), nil
}

func isTerminal(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}
