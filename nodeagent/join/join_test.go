package join_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/pki"
	"github.com/proa-project/proa/httpapi/request"
	"github.com/proa-project/proa/nodeagent/join"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an API server reduced to joining.
func server(t *testing.T) (*pki.Authority, string) {
	t.Helper()
	a, err := pki.Open(pki.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	joins := authn.JoinHandler(a)
	mux := http.NewServeMux()
	mux.Handle("GET /cacerts", authn.CACertsHandler(a))
	mux.HandleFunc("POST /proa/v1/join", func(w http.ResponseWriter, r *http.Request) {
		state := &request.State{}
		switch {
		case r.Header.Get("Authorization") == "Bearer abcdef.0123456789abcdef":
			state.User = &request.User{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers"}}
		case len(r.TLS.PeerCertificates) > 0:
			if _, failed := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); failed != nil {
				http.Error(w, failed.Error(), http.StatusUnauthorized)
				return
			}
			c := r.TLS.PeerCertificates[0].Subject
			state.User = &request.User{Name: c.CommonName, Groups: c.Organization}
		}
		joins.ServeHTTP(w, r.WithContext(request.With(r.Context(), state)))
	})
	serving, err := a.Serving(pki.ServingConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(mux)
	s.Listener = tls.NewListener(s.Listener, serving.TLS())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return a, strings.Replace(s.URL, "http:", "https:", 1)
}

func TestJoin(t *testing.T) {
	a, url := server(t)
	c := join.Config{
		Server: url, Token: "abcdef.0123456789abcdef", CAHash: a.Hash(), NodeName: "n1",
		NodeIPs: []string{"127.0.0.1"}, Dir: t.TempDir(),
	}
	i, err := join.Node(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := i.TLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: a.NodePool(), DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("the serving certificate is no good: %v", err)
	}
	block, _ := pem.Decode(i.CA())
	if root, err := x509.ParseCertificate(block.Bytes); err != nil || pki.Hash(root) != a.Hash() {
		t.Errorf("the root is another: %v", err)
	}
	if i.TLS().ClientAuth != tls.RequireAndVerifyClientCert {
		t.Error("the node lets in anybody")
	}

	t.Run("again without a token", func(t *testing.T) {
		c := c
		c.Token, c.CAHash = "", ""
		again, err := join.Node(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		same, err := again.TLS().GetCertificate(nil)
		if err != nil || !same.Leaf.Equal(cert.Leaf) {
			t.Errorf("another certificate, %v", err)
		}
	})
	t.Run("another address", func(t *testing.T) {
		c := c
		c.NodeIPs = []string{"127.0.0.2"}
		again, err := join.Node(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if next, err := again.TLS().GetCertificate(nil); err != nil || next.Leaf.VerifyHostname("127.0.0.2") != nil {
			t.Errorf("the certificate is not for the new address: %v", err)
		}
	})
}

func TestJoinRefused(t *testing.T) {
	a, url := server(t)
	base := join.Config{Server: url, Token: "abcdef.0123456789abcdef", CAHash: a.Hash(), NodeName: "n1"}
	tests := []struct {
		name   string
		change func(*join.Config)
		want   string
	}{
		{"hash of another cluster", func(c *join.Config) { c.CAHash = "sha256:" + strings.Repeat("0", 64) }, join.ErrWrongCluster.Error()},
		{"wrong token", func(c *join.Config) { c.Token = "abcdef.wrong" }, "Unauthorized"},
		{"no token", func(c *join.Config) { c.Token = "" }, "a join token and the hash of the root are needed"},
		{"no hash", func(c *join.Config) { c.CAHash = "" }, "a join token and the hash of the root are needed"},
		{"nobody there", func(c *join.Config) { c.Server = "https://127.0.0.1:1" }, "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := base
			c.Dir = t.TempDir()
			tt.change(&c)
			if _, err := join.Node(t.Context(), c); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("join: %v, want %q", err, tt.want)
			}
		})
	}
	c := base
	c.Dir, c.CAHash = t.TempDir(), "sha256:00"
	if _, err := join.Node(t.Context(), c); !errors.Is(err, join.ErrWrongCluster) {
		t.Errorf("join: %v, want ErrWrongCluster", err)
	}
}
