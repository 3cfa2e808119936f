// Command proa is Proa as a whole: control plane, node agent and their tools
// in one binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/proa-project/proa/cmd/proa/app"
)

// version is set by the linker.
var version = "dev" // the linker needs a variable

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := app.New(app.Streams{Out: os.Stdout, Err: os.Stderr}, version).ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}
