// Command loadgen measures a Kubernetes-compatible API server from outside.
//
// It speaks plain net/http (HTTP/2 over TLS, HTTP/1.1, or h2c) with JSON bodies
// and a bearer token. It deliberately does not use client-go, so the same
// binary can be pointed at any server that implements the Kubernetes REST API.
//
// See usage below, or run "loadgen --help".
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

//nolint:dupword // a mode, and what it does
const usage = `loadgen: load generator for a Kubernetes-compatible API server

usage: loadgen MODE [flags]

API modes (each prints a table; --out appends JSON lines)
  create      W workers create N objects (--kind configmaps|pods)
  get         read single objects by name (fills --fill objects first)
  list        list --fill pods with --list-variants
  update      PUT with resourceVersion, one private object per worker
  patch       --patch-type smp|merge|ssa, one private object per worker
  delete      delete N objects one by one (created first, not measured)
  watch       --watchers W on one namespace's configmaps, one writer at full
              speed for --duration; latency is write response -> event receipt
Cluster modes
  nodes       create --n fake Ready nodes (cpu 32, memory 128Gi, pods 110)
  sched       create --n pods, wait until all are bound (a scheduler must run);
              --create=false only watches pods that already exist
  deploy      create a Deployment of --n replicas, wait until all pods exist
              and are bound (controller manager + scheduler must run)
Other modes
  etcd-put    raw etcd puts (--etcd URL); --etcd-txn uses the apiserver's
              create transaction (If mod==0 Then put Else get)
  etcd-get    raw linearizable etcd gets
  webhook     serve an admission webhook that wants limits on pods (--addr)
  ready       poll /readyz until 200; with --since NS prints the startup time
  sample      sample RSS and CPU of --pid processes for --duration
  table       read JSON lines (files as arguments), print medians per row

flags
`

// Config holds every flag. One flat set keeps the command line predictable.
type Config struct {
	Server, Token, CA, Cert, Key string
	Kubeconfig                   string
	Insecure, HTTP1, H2C, Gzip   bool
	Conns                        int

	Workers, N, Fill, Runs, Size int
	Duration                     time.Duration
	Kind, PatchType, Namespace   string
	ListVariants                 string
	ListReps                     int

	Watchers  string
	Create    bool
	Timeout   time.Duration
	Etcd      string
	EtcdTxn   bool
	Addr      string
	Since     int64
	Pids      string
	Label     string
	Out       string
	Variant   string
	WarmUp    int
	NodeStart int
}

func main() {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") || os.Args[1] == "help" {
		c := Config{}
		fs := flags(&c)
		fs.SetOutput(os.Stdout)
		fmt.Print(usage)
		fs.PrintDefaults()
		return
	}
	mode := os.Args[1]
	c := Config{}
	fs := flags(&c)
	fs.Usage = func() { fmt.Fprint(os.Stderr, usage); fs.PrintDefaults() }
	if err := fs.Parse(os.Args[2:]); err != nil {
		os.Exit(2)
	}
	if strings.HasPrefix(c.Token, "@") {
		b, err := os.ReadFile(c.Token[1:])
		fatal(err)
		c.Token = strings.TrimSpace(string(b))
	}
	rec, err := newRecorder(&c, mode)
	fatal(err)
	defer rec.close()

	switch mode {
	case "create":
		runCreate(&c, rec)
	case "get":
		runGet(&c, rec)
	case "list":
		runList(&c, rec)
	case "update":
		runUpdate(&c, rec)
	case "patch":
		runPatch(&c, rec)
	case "delete":
		runDelete(&c, rec)
	case "watch":
		for w := range strings.SplitSeq(c.Watchers, ",") {
			n, err := strconv.Atoi(w)
			fatal(err)
			runWatch(&c, rec, n)
		}
	case "nodes":
		runNodes(&c, rec)
	case "sched":
		runSched(&c, rec)
	case "deploy":
		runDeploy(&c, rec)
	case "etcd-put":
		runEtcdPut(&c, rec)
	case "etcd-get":
		runEtcdGet(&c, rec)
	case "webhook":
		runWebhook(&c)
	case "ready":
		runReady(&c, rec)
	case "sample":
		runSample(&c, rec)
	case "table":
		fatal(tableFromFiles(fs.Args()))
		return
	default:
		fmt.Fprintf(os.Stderr, "loadgen: unknown mode %q\n", mode)
		os.Exit(2)
	}
	rec.printTable()
}

func flags(c *Config) *flag.FlagSet {
	fs := flag.NewFlagSet("loadgen", flag.ContinueOnError)
	fs.StringVar(&c.Server, "server", "https://127.0.0.1:16443", "API server base URL, http or https")
	fs.StringVar(&c.Token, "token", "", "bearer token, or @FILE")
	fs.StringVar(&c.Kubeconfig, "kubeconfig", "", "take server, CA and credential from this file")
	fs.StringVar(&c.CA, "ca", "", "PEM file with the server's CA")
	fs.StringVar(&c.Cert, "cert", "", "client certificate (webhook: serving certificate)")
	fs.StringVar(&c.Key, "key", "", "key of --cert")
	fs.BoolVar(&c.Insecure, "insecure", false, "do not verify the server certificate")
	fs.BoolVar(&c.HTTP1, "http1", false, "force HTTP/1.1")
	fs.BoolVar(&c.H2C, "h2c", false, "HTTP/2 without TLS (http:// servers)")
	fs.BoolVar(&c.Gzip, "gzip", false, "send Accept-Encoding: gzip and discard the compressed body")
	fs.IntVar(&c.Conns, "conns", 1, "independent connection pools; workers are spread over them")
	fs.IntVar(&c.Workers, "workers", 32, "concurrent workers")
	fs.IntVar(&c.N, "n", 2000, "operations (or objects) per run")
	fs.IntVar(&c.Fill, "fill", 1000, "objects that get and list fill the namespace with")
	fs.IntVar(&c.Runs, "runs", 1, "repetitions; the table shows the median")
	fs.IntVar(&c.Size, "size", 1024, "ConfigMap data bytes, or etcd value bytes")
	fs.DurationVar(&c.Duration, "duration", 10*time.Second, "length of watch writing and of sample")
	fs.StringVar(&c.Kind, "kind", "configmaps", "configmaps or pods")
	fs.StringVar(&c.PatchType, "patch-type", "smp", "smp, merge or ssa")
	fs.StringVar(&c.Namespace, "namespace", "", "namespace; default is a fresh one per run")
	fs.StringVar(&c.ListVariants, "list-variants", "json,gzip,proto,rv0,limit500,selector1pct", "list requests to measure (also: table, meta, fieldsel)")
	fs.IntVar(&c.ListReps, "list-reps", 5, "lists per run and variant")
	fs.StringVar(&c.Watchers, "watchers", "1,100,1000", "comma list of watcher counts")
	fs.BoolVar(&c.Create, "create", true, "sched: create the pods (false: only wait)")
	fs.DurationVar(&c.Timeout, "timeout", 10*time.Minute, "give up waiting after this long")
	fs.StringVar(&c.Etcd, "etcd", "http://127.0.0.1:12379", "etcd client URL")
	fs.BoolVar(&c.EtcdTxn, "etcd-txn", false, "etcd-put: use the apiserver's create transaction")
	fs.StringVar(&c.Addr, "addr", "127.0.0.1:19443", "webhook listen address")
	fs.Int64Var(&c.Since, "since", 0, "ready: unix nanoseconds when the server was executed")
	fs.StringVar(&c.Pids, "pid", "", "processes to account: name=PID,name=PID")
	fs.StringVar(&c.Label, "label", "", "free label of the system under test")
	fs.StringVar(&c.Variant, "variant", "", "extra text in the variant column")
	fs.StringVar(&c.Out, "out", "", "append JSON lines to this file")
	fs.IntVar(&c.WarmUp, "warmup", 200, "unmeasured operations before create/get/update/patch")
	fs.IntVar(&c.NodeStart, "node-start", 0, "nodes: first node index")
	return fs
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
}
