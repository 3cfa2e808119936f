// Package cluster runs a whole control plane inside a test.
package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/proa-project/proa/cmd/proa/controlplane"
	"github.com/proa-project/proa/httpapi/client"
)

// A Cluster is a running control plane that ends with its test.
type Cluster struct {
	*controlplane.ControlPlane
	DataDir string
	// Kubeconfig is the path of a file with all rights.
	Kubeconfig string
	// REST is a client with all rights over TLS.
	REST *client.REST
}

// Config narrows a Cluster. The zero value is a control plane without nodes.
type Config struct {
	DataDir       string // default: a fresh one
	Listen        string // default: 127.0.0.1:0
	SimulateNodes int
	Controllers   []string // default: all
	TLSNames      []string
	Etcd          controlplane.Etcd // default: embedded
}

// Start runs a control plane and waits until it is ready. It stops with the
// test.
func Start(t testing.TB, config Config) *Cluster {
	t.Helper()
	c := &Cluster{DataDir: config.DataDir}
	if c.DataDir == "" {
		c.DataDir = t.TempDir()
	}
	if config.Listen == "" {
		config.Listen = "127.0.0.1:0"
	}
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	if os.Getenv("PROA_TEST_LOG") == "debug" {
		log = log.Level(zerolog.DebugLevel)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cp, err := controlplane.Start(ctx, controlplane.Config{
		DataDir:       c.DataDir,
		Listen:        config.Listen,
		TLSNames:      config.TLSNames,
		SimulateNodes: config.SimulateNodes,
		Controllers:   config.Controllers,
		Etcd:          config.Etcd,
		Log:           log,
		Version:       "test",
	})
	if err != nil {
		cancel()
		t.Fatalf("start control plane: %v", err)
	}
	c.ControlPlane = cp
	t.Cleanup(func() {
		cancel()
		if err := cp.Wait(); err != nil {
			t.Errorf("control plane: %v", err)
		}
	})
	c.Kubeconfig = filepath.Join(c.DataDir, "admin.kubeconfig")
	if c.REST, err = client.FromKubeconfig(c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

// Eventually calls f until it returns true, and fails the test if it has not
// within the time.
func Eventually(t testing.TB, within time.Duration, what string, f func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !f(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", within, what)
		case <-tick.C:
		}
	}
}
