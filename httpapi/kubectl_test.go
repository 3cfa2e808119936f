package httpapi_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubectl runs the kubectl of this machine against a fixture.
type kubectl struct {
	t      *testing.T
	config string
}

func newKubectl(t *testing.T, f *fixture) *kubectl {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl in PATH; install it to run this test")
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: f.URL, InsecureSkipTLSVerify: true}
	cfg.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "alice"}
	cfg.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "default"}
	cfg.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return &kubectl{t: t, config: path}
}

// try returns what kubectl says and whether it was content.
func (k *kubectl) try(stdin string, args ...string) (string, error) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.config, "HOME="+filepath.Dir(k.config))
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}

// expecter returns a function that runs kubectl and wants a text in what it
// says.
func (k *kubectl) expecter() func(want, stdin string, args ...string) {
	return func(want, stdin string, args ...string) {
		k.t.Helper()
		if got, _ := k.try(stdin, args...); !strings.Contains(got, want) {
			k.t.Errorf("kubectl %s: %q\nwant %q", strings.Join(args, " "), got, want)
		}
	}
}
