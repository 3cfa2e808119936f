package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOpen_keepsAndProtects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a := open(t, dir)
	if _, err := a.Serving(ServingConfig{}); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir)
	if a.Hash() != b.Hash() || !bytes.Equal(a.PEM(), b.PEM()) || !a.account.Equal(b.account) {
		t.Error("a second Open gives another authority")
	}
	if !strings.HasPrefix(a.Hash(), "sha256:") || len(a.Hash()) != len("sha256:")+64 {
		t.Errorf("hash is %q", a.Hash())
	}
	if life := time.Until(a.cluster.cert.NotAfter); life < rootLife-time.Hour {
		t.Errorf("root lasts %s", life)
	}
	entries := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			entries++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if entries != 6 {
		t.Errorf("%d files in the folder, want 6: leftovers?", entries)
	}
}

func TestOpen_concurrently(t *testing.T) {
	dir := t.TempDir()
	hashes := make([]string, 8)
	var wg sync.WaitGroup
	for i := range hashes {
		wg.Go(func() {
			a, err := Open(Config{Dir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			hashes[i] = a.Hash() + string(a.PEM())
		})
	}
	wg.Wait()
	for _, h := range hashes {
		if h != hashes[0] {
			t.Fatal("two openers have two authorities")
		}
	}
}

func TestOpen_damaged(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"key is lost":        func(d string) error { return os.Remove(filepath.Join(d, caKeyFile)) },
		"key is another":     func(d string) error { return os.Rename(filepath.Join(d, nodeCAKeyFile), filepath.Join(d, caKeyFile)) },
		"key is garbage":     func(d string) error { return os.WriteFile(filepath.Join(d, accountKeyFile), []byte("x"), 0o600) },
		"certificate is cut": func(d string) error { return os.Truncate(filepath.Join(d, caCertFile), 40) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(Config{Dir: dir}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("error is %v, want ErrCorrupt", err)
			}
		})
	}
	t.Run("crash between key and certificate heals", func(t *testing.T) {
		dir := t.TempDir()
		a := open(t, dir)
		if err := os.Remove(filepath.Join(dir, caCertFile)); err != nil {
			t.Fatal(err)
		}
		if b := open(t, dir); b.Hash() != a.Hash() {
			t.Error("another key")
		}
	})
}

func TestServing_reuseAndRenew(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	a, err := Open(Config{Dir: dir, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	serial := func(cfg ServingConfig) string {
		t.Helper()
		s, err := a.Serving(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range append(cfg.Hosts, "localhost", "127.0.0.1", "::1", "kubernetes.default.svc.cluster.local", "kubernetes.default.svc") {
			if err := c.Leaf.VerifyHostname(h); err != nil {
				t.Error(err)
			}
		}
		return c.Leaf.SerialNumber.String()
	}
	first := serial(ServingConfig{Listen: "127.0.0.1:6443"})
	if serial(ServingConfig{Listen: "127.0.0.1:6443"}) != first {
		t.Error("a good certificate was replaced")
	}
	second := serial(ServingConfig{Listen: "0.0.0.0:6443", Hosts: []string{"api.example.com", "192.0.2.7"}})
	if second == first {
		t.Error("a certificate without the new names was kept")
	}
	if serial(ServingConfig{Listen: "127.0.0.1:6443"}) != second {
		t.Error("a certificate with more names than needed was replaced")
	}
	s, err := a.Serving(ServingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(leafLife - renewBefore + time.Hour)
	c, err := s.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if c.Leaf.SerialNumber.String() == second || c.Leaf.NotAfter.Sub(now) < leafLife-time.Hour {
		t.Error("a certificate near its end is shown")
	}
	if again, err := s.Certificate(); err != nil || again != c {
		t.Error("renewed twice")
	}
}

// csr returns a signing request as PEM.
func csr(t *testing.T, tmpl *x509.CertificateRequest) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), key
}

func TestSignNode(t *testing.T) {
	a := open(t, t.TempDir())
	subject := nodeSubject("n1")
	ip := net.ParseIP("10.1.2.3")

	good, _ := csr(t, &x509.CertificateRequest{Subject: subject})
	certPEM, err := a.SignNodeClient(good, "n1")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.CommonName != "system:node:n1" || cert.Subject.Organization[0] != "system:nodes" || cert.IsCA {
		t.Errorf("subject is %s", cert.Subject)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a client certificate passes for a server's")
	}

	serving, _ := csr(t, &x509.CertificateRequest{Subject: subject, IPAddresses: []net.IP{ip}, DNSNames: []string{"n1.example.com"}})
	if certPEM, err = a.SignNodeServing(serving, "n1"); err != nil {
		t.Fatal(err)
	}
	if cert, err = ParseCertificate(certPEM); err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"n1", "n1.example.com", "10.1.2.3"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: a.NodePool(), DNSName: h}); err != nil {
			t.Error(err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool()}); err == nil {
		t.Error("a node's serving certificate is good under the cluster's root")
	}

	broken := bytes.Clone(good)
	block, _ := pem.Decode(broken)
	block.Bytes[len(block.Bytes)-1] ^= 1
	other, _ := csr(t, &x509.CertificateRequest{Subject: nodeSubject("n2")})
	masters, _ := csr(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:masters"}}})
	named, _ := csr(t, &x509.CertificateRequest{Subject: subject, DNSNames: []string{"kubernetes.default.svc"}})
	anyIP, _ := csr(t, &x509.CertificateRequest{Subject: subject, IPAddresses: []net.IP{net.IPv4zero}})
	for _, tt := range []struct {
		name string
		node string
		csr  []byte
		sign func([]byte, string) ([]byte, error)
	}{
		{"not PEM", "n1", []byte("hello"), a.SignNodeClient},
		{"a certificate", "n1", a.PEM(), a.SignNodeClient},
		{"bad signature", "n1", pem.EncodeToMemory(block), a.SignNodeClient},
		{"another node's", "n1", other, a.SignNodeClient},
		{"another group", "n1", masters, a.SignNodeClient},
		{"names in client certificate", "n1", named, a.SignNodeClient},
		{"names of others", "n1", named, a.SignNodeServing},
		{"all addresses", "n1", anyIP, a.SignNodeServing},
		{"no node name", "", good, a.SignNodeClient},
		{"bad node name", "N_1", good, a.SignNodeClient},
	} {
		if _, err := tt.sign(tt.csr, tt.node); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: error is %v, want ErrBadRequest", tt.name, err)
		}
	}
}

func TestKubeconfig(t *testing.T) {
	a := open(t, t.TempDir())
	s, err := a.Serving(ServingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", s.TLS())
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto+" "+r.TLS.PeerCertificates[0].Subject.String())
		}),
	}
	served := make(chan error)
	go func() { served <- srv.Serve(ln) }()
	defer func() {
		srv.Close() // the error of Serve tells
		<-served
	}()

	admin, err := a.Client("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.kubeconfig")
	if err := (Kubeconfig{Server: "https://" + ln.Addr().String(), CA: a.PEM(), Client: admin}).Write(path); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode of kubeconfig: %v %v", fi.Mode(), err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cfg.CAData)
	cert, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "HTTP/2.0 CN=admin,O=system:masters" {
		t.Errorf("server saw %q, %v", body, err)
	}
	old := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}}
	if resp, err := (&http.Client{Transport: old}).Do(req); err == nil {
		resp.Body.Close()
		t.Error("TLS 1.1 is let in")
	}
}
