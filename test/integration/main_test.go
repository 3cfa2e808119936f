// Package integration_test runs whole control planes against what users have:
// stock client-go, crashes, storage that fails, a second server, nonsense.
package integration_test

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/proa-project/proa/cmd/proa/app"
)

// runEnv makes the test binary be proa itself.
const runEnv = "PROA_TEST_RUN_PROA"

func TestMain(m *testing.M) {
	if os.Getenv(runEnv) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := app.New(app.Streams{Out: os.Stdout, Err: os.Stderr}, "test").ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}
