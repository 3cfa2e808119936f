// Package nodeagent runs the pods that are bound to one node, in the node's
// container runtime, and tells the API how they are.
//
// Each pod has a worker: a goroutine that asks podworker what to do next, does
// that one thing through package cri, looks what came of it, and asks again.
// Nothing that matters is kept in memory only: an agent that starts anew finds
// its pods in the runtime and goes on with them, and one that stops leaves them
// running.
package nodeagent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/client/event"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/nodeagent/cri"
)

// Config says which node an agent is and what it uses. REST and Runtime are
// required.
type Config struct {
	REST    *client.REST
	Runtime *cri.Runtime

	// NodeName is the node's name. Default: the host's name in lower case.
	NodeName string
	// NodeIPs are the node's addresses, the first for the API server to
	// connect to. Default: the one that reaches the API server.
	NodeIPs []string
	// RootDir holds volumes and logs. Default: /var/lib/proa/agent.
	RootDir string
	// ListenAddr is where the agent serves logs and connections to the API
	// server. Default: port 10250 of the first of NodeIPs. Listener replaces it.
	ListenAddr string
	Listener   net.Listener
	// TLS is the configuration of that server; it must demand client
	// certificates. Without it nothing is served.
	TLS *tls.Config

	// CgroupParent is below which pods' cgroups are. Default: /kubepods.
	CgroupParent string
	// Version is what the node says of its agent.
	Version string
	// Labels and Taints are what the node registers with, beside the usual.
	Labels map[string]string
	Taints []corev1.Taint
	// MaxPods is how many pods the node takes. Default: 110.
	MaxPods int64
	// ClusterDNS are the name servers of pods, ClusterDomain what they search;
	// without, pods use the host's.
	ClusterDNS    []string
	ClusterDomain string

	// CNIDir is where the runtime looks for the pods' network. If it and
	// PodCIDR, the addresses of this node's pods, are given and nothing is
	// there, a bridge is configured. Default: the network is left alone.
	CNIDir, PodCIDR string

	Log zerolog.Logger

	// Heartbeat is how often lease and node status are renewed. Default: 10 s.
	Heartbeat time.Duration
	// Refresh is how often contents of volumes are compared with the API.
	// Default: 30 s.
	Refresh time.Duration
	// Relist is how often the runtime is asked for everything, in case an
	// event was lost. Default: 20 s with events, 1 s without.
	Relist time.Duration
}

// An Agent runs the pods of a node.
type Agent struct {
	Config
	node     *nodeClient
	pods     *client.Client[*corev1.Pod]
	informer *informers.Informer[*corev1.Pod]
	events   *event.Recorder
	sources  *sources
	cgroups  *cgroups
	version  cri.Version // of the runtime, known once the agent runs
	workers  *dispatcher
}

// New checks the configuration and returns an Agent that does nothing before
// Run.
func New(c Config) (*Agent, error) {
	if c.REST == nil || c.Runtime == nil {
		return nil, errors.New("nodeagent: REST and Runtime are required")
	}
	if c.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("nodeagent: find the host's name: %w", err)
		}
		c.NodeName = strings.ToLower(name)
	}
	if len(c.NodeIPs) == 0 {
		ip, err := nodeIP(c.REST.URL())
		if err != nil {
			return nil, fmt.Errorf("nodeagent: find the node's address: %w", err)
		}
		c.NodeIPs = []string{ip}
	}
	if c.RootDir == "" {
		c.RootDir = "/var/lib/proa/agent"
	}
	root, err := filepath.Abs(c.RootDir)
	if err != nil {
		return nil, fmt.Errorf("nodeagent: find the root folder: %w", err)
	}
	c.RootDir = root
	if c.ListenAddr == "" {
		c.ListenAddr = net.JoinHostPort(c.NodeIPs[0], "10250")
	}
	if c.CgroupParent == "" {
		c.CgroupParent = "/kubepods"
	}
	if c.Version == "" {
		c.Version = "v1.37.2+proa"
	}
	if c.MaxPods == 0 {
		c.MaxPods = 110
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 10 * time.Second
	}
	if c.Refresh == 0 {
		c.Refresh = 30 * time.Second
	}
	if c.TLS != nil && c.TLS.ClientAuth != tls.RequireAndVerifyClientCert {
		return nil, errors.New("nodeagent: the server's TLS configuration must demand client certificates")
	}
	a := &Agent{Config: c}
	a.pods = client.For[*corev1.Pod](c.REST)
	a.informer = informers.New(informers.Options[*corev1.Pod]{
		Client: a.pods, FieldSelector: "spec.nodeName=" + c.NodeName, Log: c.Log,
	})
	a.events = event.NewRecorder(c.REST, "kubelet", c.NodeName, c.Log)
	a.node = newNodeClient(a)
	a.sources = newSources(a)
	a.cgroups = newCgroups(c.CgroupParent, c.Log)
	return a, nil
}

// Run registers the node and runs its pods until ctx is done; it returns when
// everything of the agent has stopped. Pods go on running. The error is that of
// ctx, unless the agent could not go on.
func (a *Agent) Run(ctx context.Context) error {
	if err := os.MkdirAll(a.RootDir, 0o755); err != nil { //nolint:gosec // volumes below it are for any user
		return fmt.Errorf("make the root folder: %w", err)
	}
	if err := writeNetwork(a.CNIDir, a.PodCIDR); err != nil {
		return err
	}
	a.cgroups.prepare()
	g, ctx := errgroup.WithContext(ctx)
	if a.TLS != nil || a.Listener != nil {
		port, err := a.serve(ctx, g)
		if err != nil {
			return err
		}
		a.node.port = port
	}
	a.workers = newDispatcher(ctx, a)
	g.Go(func() error { return a.events.Run(ctx) })
	g.Go(func() error { return a.node.run(ctx) })
	g.Go(func() error { return a.informer.Run(ctx) })
	g.Go(func() error { return a.runPods(ctx) })
	err := g.Wait()
	a.workers.wait()
	return err
}

// runPods lets the informer and the runtime wake the pods' workers.
func (a *Agent) runPods(ctx context.Context) error {
	if err := a.awaitRuntime(ctx); err != nil {
		return err
	}
	a.informer.AddHandler(informers.Handler[*corev1.Pod]{
		Add:    func(pod *corev1.Pod, _ bool) { a.workers.update(pod) },
		Update: func(_, pod *corev1.Pod) { a.workers.update(pod) },
		Delete: func(pod *corev1.Pod) { a.workers.remove(pod) },
	})
	if err := a.informer.WaitForSync(ctx); err != nil {
		return err
	}
	return a.watchRuntime(ctx)
}

// awaitRuntime waits until the runtime answers.
func (a *Agent) awaitRuntime(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for warned := false; ; {
		v, err := a.Runtime.Version(ctx)
		if err == nil {
			a.version = v
			a.node.setRuntime(v)
			return nil
		}
		if !warned {
			a.Log.Warn().Err(err).Msg("waiting for the container runtime")
			warned = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// watchRuntime follows the runtime's events, and asks for everything now and
// then.
func (a *Agent) watchRuntime(ctx context.Context) error {
	list := a.Relist
	if list == 0 {
		list = 20 * time.Second
	}
	ready := make(chan struct{}, 1)
	unsupported := make(chan struct{})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			err := a.Runtime.Events(ctx, func() {
				select {
				case ready <- struct{}{}:
				default:
				}
			}, a.workers.changed)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, cri.ErrUnsupported) {
				a.Log.Info().Msg("the container runtime has no events; it is asked instead")
				close(unsupported)
				return nil
			}
			a.Log.Debug().Err(err).Msg("the stream of container events broke off")
			timer := time.NewTimer(100 * time.Millisecond)
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case <-timer.C:
			}
		}
	})
	g.Go(func() error {
		tick := time.NewTicker(list)
		defer tick.Stop()
		soon := time.NewTimer(list)
		defer soon.Stop()
		for {
			a.relist(ctx)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-ready: // what happened while there was no stream
				soon.Reset(500 * time.Millisecond)
			case <-soon.C: // what happened until the runtime took notice of it
			case <-tick.C:
			case <-unsupported:
				unsupported = nil
				if a.Relist == 0 {
					tick.Reset(time.Second)
				}
			}
		}
	})
	return g.Wait()
}

// relist wakes the workers of pods that have changed in the runtime, and gives
// pods that the API does not know a worker to remove them.
func (a *Agent) relist(ctx context.Context) {
	pods, err := a.Runtime.Pods(ctx)
	if err == nil {
		err = a.workers.reconcile(ctx, pods)
	}
	if err != nil && ctx.Err() == nil {
		a.Log.Debug().Err(err).Msg("cannot list what the runtime has")
	}
}

// serverPlatform is the node's operating system and architecture.
func serverPlatform() (system, arch string) { return runtime.GOOS, runtime.GOARCH }
