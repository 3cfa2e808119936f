// Package controlplane wires the control plane: storage, API server, plugins,
// controllers, scheduler and simulated nodes, in one process.
package controlplane

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/controllers"
	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/httpapi/dynamic"
	"github.com/proa-project/proa/httpapi/pki"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/nodeagent/simulated"
	"github.com/proa-project/proa/openapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins"
	"github.com/proa-project/proa/wasmplugins/library"
)

// KubernetesVersion is the version of the Kubernetes API that Proa serves.
const KubernetesVersion = "v1.37.2"

// readyTimeout bounds how long a start may take.
const readyTimeout = 60 * time.Second

// Config says what a control plane is made of.
type Config struct {
	// DataDir holds all state; it is made with mode 0700.
	DataDir string
	// Listen is the address to serve on, host:port; port 0 picks one.
	Listen string
	// TLSNames are further names of the serving certificate.
	TLSNames []string
	// Etcd is an external cluster; embedded etcd without endpoints.
	Etcd Etcd
	// SimulateNodes is the number of simulated nodes.
	SimulateNodes int
	// Controllers are the names to run; empty or "*" is all, "-name" leaves
	// one out.
	Controllers []string
	// TrustedKeys are PEM files of public keys, of which one must have signed
	// each plugin module; without any, modules need no signature.
	TrustedKeys []string
	// ExemptNamespaces are those in which admission plugins have no say.
	ExemptNamespaces []string
	// PluginHosts are the hosts that plugins may be allowed to send HTTP
	// requests to, each as host or host:port; without any, none is.
	PluginHosts []string
	// BreakGlass keeps all policies of users from being called.
	BreakGlass bool
	// Version is that of the binary, for /version.
	Version string
	Log     zerolog.Logger
}

// Etcd says how an external etcd cluster is reached.
type Etcd struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
}

// shared tells whether other servers may use the same storage, so that loops
// run in one of them only.
func (c *Config) shared() bool { return len(c.Etcd.Endpoints) > 0 }

// A ControlPlane is one that runs.
type ControlPlane struct {
	// URL is where the API is served.
	URL string
	// Kubeconfig is the path of a kubeconfig with all rights.
	Kubeconfig string
	// Authority is the cluster's.
	Authority *pki.Authority
	// Handler is the API server, for clients in the same process.
	Handler http.Handler

	tokens loopback
	// authorizer is the server's.
	authorizer lateAuthorizer
	roles      *roles
	traces     *policy.Traces
	kinds      *dynamic.Table
	custom     custom
	group      *errgroup.Group
	ctx        context.Context //nolint:containedctx // the life of the whole
	cancel     context.CancelFunc
	store      storage.Store
}

// ControllerNames returns the names that Config.Controllers may have.
func ControllerNames() []string { return controllers.Names() }

// Start runs a control plane and returns when it is ready. It stops when ctx
// is done; Wait waits for that.
func Start(ctx context.Context, config Config) (*ControlPlane, error) {
	cp := &ControlPlane{tokens: newLoopback(), traces: policy.NewTraces(0), kinds: dynamic.New(dynamic.Config{}), roles: newRoles()}
	ctx, cp.cancel = context.WithCancel(ctx)
	cp.group, cp.ctx = errgroup.WithContext(ctx)
	if err := cp.start(config); err != nil {
		cp.cancel()
		return nil, errors.Join(err, cp.Wait())
	}
	return cp, nil
}

// Wait returns when everything has stopped, with the error that stopped it, if
// it was not the end of the context.
func (cp *ControlPlane) Wait() error {
	err := cp.group.Wait()
	cp.cancel()
	if cp.store != nil {
		err = errors.Join(ignoreCanceled(err), cp.store.Close())
		cp.store = nil
	}
	return ignoreCanceled(err)
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// InProcess returns a client of a component in this process. It passes through
// the whole API server but for socket and TLS.
func (cp *ControlPlane) InProcess(component string) (*client.REST, error) {
	return client.New(client.Config{
		URL:       "http://in-process",
		Transport: client.InProcess(cp.Handler),
		Token:     cp.tokens[component],
		UserAgent: "proa/" + component,
	})
}

// start does what Start says, in the order in which things need each other.
func (cp *ControlPlane) start(config Config) error {
	begin := time.Now()
	if err := os.MkdirAll(config.DataDir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	var err error
	if cp.Authority, err = pki.Open(pki.Config{Dir: filepath.Join(config.DataDir, "pki")}); err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cp.store, err = openStore(cp.ctx, config, metrics); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(cp.ctx, "tcp", config.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() {
		if listener != nil {
			listener.Close() //nolint:errcheck // nobody has used it
		}
	}()

	// Components in this process reach the server through a handler that is
	// filled in when the server is made: the server has plugins, and the
	// plugins' host is such a component.
	late := &lateHandler{}
	cp.Handler = late
	cp.followRoles(config)
	if err = cp.kinds.SetVirtual("traces", []dynamic.Virtual{traceResource(cp.traces)}); err != nil {
		return err
	}
	host, factory, err := cp.pluginHost(config, metrics)
	if err != nil {
		return err
	}
	cp.URL = "https://" + reachable(listener.Addr())
	server, err := cp.server(config, metrics, host, factory)
	if err != nil {
		return err
	}
	late.set(server)
	cp.custom.start(cp, config, server, host)

	serving, err := cp.Authority.Serving(pki.ServingConfig{Listen: listener.Addr().String(), Hosts: config.TLSNames})
	if err != nil {
		return err
	}
	if err := cp.writeKubeconfig(config); err != nil {
		return err
	}
	serve, tlsConfig := listener, serving.TLS()
	listener = nil
	cp.group.Go(func() error { return server.Serve(cp.ctx, serve, tlsConfig) })
	if err := cp.components(config, metrics, host, factory); err != nil {
		return err
	}
	if err := cp.waitReady(); err != nil {
		return err
	}
	config.Log.Info().Str("url", cp.URL).Str("kubeconfig", cp.Kubeconfig).Dur("took_ms", time.Since(begin)).Msg("ready")
	return nil
}

// pluginHost returns the host of WebAssembly plugins, and the informers that
// all components of this process share.
func (cp *ControlPlane) pluginHost(config Config, metrics *prometheus.Registry) (*wasmplugins.Host, *informers.Factory, error) {
	shared, err := cp.InProcess("informers")
	if err != nil {
		return nil, nil, err
	}
	factory := informers.NewFactory(informers.Config{REST: shared, Log: component(config.Log, "informers")})
	rest, err := cp.InProcess("plugin-host")
	if err != nil {
		return nil, nil, err
	}
	keys, err := trustedKeys(config.TrustedKeys)
	if err != nil {
		return nil, nil, err
	}
	broker, err := cp.capabilities(config, rest)
	if err != nil {
		return nil, nil, err
	}
	lead, err := cp.reconcilerLead(config, rest)
	if err != nil {
		return nil, nil, err
	}
	host, err := wasmplugins.New(wasmplugins.Config{
		REST:     rest,
		Factory:  factory,
		Store:    cp.store,
		CacheDir: filepath.Join(config.DataDir, "plugins"),
		Log:      component(config.Log, "plugins"),
		Metrics:  metrics,
		Instance: identity(),
		Keys:     keys,
		Grant:    broker.Grant,
		Lead:     lead,
		Kinds:    cp.kinds,

		Authorize: allowedBy(&cp.authorizer),
		Audiences: []string{authn.DefaultIssuer},
	})
	return host, factory, err
}

// trustedKeys reads the keys that plugin modules may be signed by. A key is
// named as its file is.
func trustedKeys(files []string) ([]library.Key, error) {
	var keys []library.Key
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read trusted key: %w", err)
		}
		key, err := library.ParseKey(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), pem)
		if err != nil {
			return nil, fmt.Errorf("trusted key %s: %w", file, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// server makes the API server.
func (cp *ControlPlane) server(config Config, metrics *prometheus.Registry, host *wasmplugins.Host, factory *informers.Factory) (*httpapi.Server, error) {
	info := versionInfo(config.Version)
	documents, err := openapi.Build(api.Resources(), &info)
	if err != nil {
		return nil, err
	}
	look := lookup{store: cp.store}
	accounts, err := authn.NewServiceAccounts(authn.ServiceAccountsConfig{
		Key:       cp.Authority.ServiceAccountKey(),
		Referents: look,
	})
	if err != nil {
		return nil, err
	}
	identity, err := cp.Authority.Client("proa-server", request.Masters)
	if err != nil {
		return nil, err
	}
	nodesTLS, err := cp.Authority.NodeClientTLS(identity)
	if err != nil {
		return nil, err
	}
	raw := map[string]http.Handler{
		"POST " + authn.JoinPath:              authn.JoinHandler(cp.Authority),
		"GET " + authn.CACertsPath:            authn.CACertsHandler(cp.Authority),
		"wasmmodules.plugins.proa.io/content": host.ContentHandler(),
		"GET " + recordedPath:                 host.Recording,
	}
	issuer, err := accounts.IssuerHandlers(cp.URL)
	if err != nil {
		return nil, err
	}
	for path, handler := range issuer {
		raw["GET "+path] = handler
	}
	return httpapi.New(httpapi.Config{
		Store:     cp.store,
		Resources: api.Resources(),
		Documents: documents,
		Dynamic:   cp.kinds,
		Authenticator: authn.Chain{
			&authn.ClientCerts{Pool: cp.Authority.Pool()},
			authn.Bearer{authn.NewStatic(cp.tokens.users()), accounts, &authn.JoinTokens{Secrets: look}, host.Authentication},
		},
		Authorizer: cp.authorizer.is(cp.authorizers(look, host.Authorization)),
		Admission: admissionChain(cp.store, cp.escalation(), policy.New(policy.Config{
			Sources:          append(upstreamPolicies(factory, cp.store, &cp.authorizer, documents, cp.kinds), host.Admission),
			ExemptNamespaces: config.ExemptNamespaces,
			Off:              newBreakGlass(config).on,
			Traces:           cp.traces,
			Recorder:         host.Recording,
		})),
		Nodes:  &http.Transport{TLSClientConfig: nodesTLS, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute},
		Tokens: accounts,
		Raw:    raw,
		Ready: []httpapi.Check{
			{Name: "plugins", Check: func(context.Context) error { return host.Ready() }},
			{Name: "definitions", Check: cp.custom.ready},
			{Name: "rbac", Check: cp.roles.ready},
		},
		Version: info,
		Log:     component(config.Log, "httpapi"),
		Metrics: metrics,
	})
}

// components starts everything that is a client of the server.
func (cp *ControlPlane) components(config Config, metrics *prometheus.Registry, host *wasmplugins.Host, factory *informers.Factory) error {
	run := func(f func(context.Context) error) { cp.group.Go(func() error { return ignoreCanceled(f(cp.ctx)) }) }

	me := identity()
	rest, err := cp.InProcess("controllers")
	if err != nil {
		return err
	}
	manager, err := controllers.NewManager(controllers.Config{
		REST:        rest,
		Factory:     factory,
		Log:         component(config.Log, "controllers"),
		Identity:    me,
		Names:       config.Controllers,
		LeaderElect: config.shared(),
		RootCA:      cp.Authority.PEM(),
		Metrics:     metrics,
	})
	if err != nil {
		return err
	}
	runScheduler, err := cp.scheduler(config, me, metrics, factory, host.Scheduling)
	if err != nil {
		return err
	}
	if config.SimulateNodes > 0 {
		if rest, err = cp.InProcess("simulated-nodes"); err != nil {
			return err
		}
		var nodes *simulated.Cluster
		nodes, err = simulated.New(simulated.Config{
			REST:    rest,
			Factory: factory,
			Log:     component(config.Log, "simulated"),
			Count:   config.SimulateNodes,
		})
		if err != nil {
			return err
		}
		run(nodes.Run)
	}
	bootstrapRoles, err := cp.bootstrapRoles(config)
	if err != nil {
		return err
	}
	run(bootstrapRoles)
	run(host.Run)
	run(manager.Run)
	run(runScheduler)
	run(factory.Run)
	return nil
}

// waitReady polls /readyz through the in-process client.
func (cp *ControlPlane) waitReady() error {
	ctx, cancel := context.WithTimeout(cp.ctx, readyTimeout)
	defer cancel()
	hc := &http.Client{Transport: client.InProcess(cp.Handler)}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://in-process/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := hc.Do(req)
		if err == nil {
			resp.Body.Close() //nolint:errcheck // only the status counts
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if cp.ctx.Err() != nil { // stopped, which is not a failure to start
				return cp.ctx.Err()
			}
			return fmt.Errorf("not ready within %v: %w", readyTimeout, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// writeKubeconfig writes the administrator's kubeconfig.
func (cp *ControlPlane) writeKubeconfig(config Config) error {
	admin, err := cp.Authority.Client("admin", request.Masters)
	if err != nil {
		return err
	}
	cp.Kubeconfig = filepath.Join(config.DataDir, "admin.kubeconfig")
	return pki.Kubeconfig{Server: cp.URL, CA: cp.Authority.PEM(), Client: admin}.Write(cp.Kubeconfig)
}

// reachable returns the address for a client on this machine.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func versionInfo(binary string) version.Info {
	return version.Info{
		Major:      "1",
		Minor:      "37",
		GitVersion: KubernetesVersion + "+proa-" + binary,
		GoVersion:  runtime.Version(),
		Compiler:   runtime.Compiler,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

func component(log zerolog.Logger, name string) zerolog.Logger {
	return log.With().Str("component", name).Logger()
}

// identity names this process among several servers.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "proa"
	}
	b := make([]byte, 4)
	rand.Read(b) // it never fails
	return host + "_" + hex.EncodeToString(b)
}
