// Package join gets a node's certificates from the API server for a join
// token, keeps them in a folder, and renews them.
//
// The token proves the node to the server; the hash of the cluster's root
// certificate proves the server to the node. Both come from an operator.
package join

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/proa-project/proa/httpapi/client"
)

// ErrWrongCluster is a server whose root certificate does not have the hash.
var ErrWrongCluster = errors.New("the server's root certificate does not have the expected hash")

// Config says which cluster to join as what. Server, NodeName and Dir are
// required; Token and CAHash unless the node has joined before.
type Config struct {
	// Server is the URL of the API server.
	Server string
	// Token is a join token: id.secret.
	Token string
	// CAHash is the hash of the cluster's root: sha256:<hex>.
	CAHash string
	// NodeName and NodeIPs are what the certificates are for.
	NodeName string
	NodeIPs  []string
	// Dir keeps keys and certificates.
	Dir string
	Log zerolog.Logger
}

// An Identity is what a node shows to others, and whom it trusts. It is safe
// for use by several goroutines.
type Identity struct {
	config  Config
	current atomic.Pointer[pairs]
}

type pairs struct {
	ca              []byte
	client, serving tls.Certificate
}

// The files in Config.Dir.
const (
	caFile      = "ca.crt"
	clientCert  = "client.crt"
	clientKey   = "client.key"
	servingCert = "serving.crt"
	servingKey  = "serving.key"
)

// Node returns the identity in the folder, or joins if there is none that
// serves.
func Node(ctx context.Context, c Config) (*Identity, error) {
	i := &Identity{config: c}
	p, err := load(c)
	if err == nil && left(p) > 0 {
		i.current.Store(p)
		return i, nil
	}
	if c.Token == "" || c.CAHash == "" {
		return nil, fmt.Errorf("node %q has no valid certificates in %q: a join token and the hash of the root are needed", c.NodeName, c.Dir)
	}
	ca, err := fetchCA(ctx, c)
	if err != nil {
		return nil, err
	}
	transport, err := client.NewTransport(client.TLS{CA: ca})
	if err != nil {
		return nil, fmt.Errorf("trust the cluster's root: %w", err)
	}
	defer transport.CloseIdleConnections()
	if err := i.exchange(ctx, transport, ca, c.Token); err != nil {
		return nil, err
	}
	return i, nil
}

// fetchCA reads the cluster's root from a server that is not trusted yet, and
// checks its hash.
func fetchCA(ctx context.Context, c Config) ([]byte, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // what is read is checked against the hash
		MinVersion:         tls.VersionTLS12,
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.Server, "/")+"/cacerts", nil)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's root: %w", err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's root: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's root: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read the cluster's root: the server answered %s", resp.Status)
	}
	for rest := body; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, ErrWrongCluster
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse the cluster's root: %w", err)
		}
		sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		if subtle.ConstantTimeCompare([]byte("sha256:"+hex.EncodeToString(sum[:])), []byte(strings.ToLower(c.CAHash))) == 1 {
			return pem.EncodeToMemory(block), nil // only the one that was vouched for
		}
	}
}

// exchange makes keys, has them certified, and keeps all. The transport says
// who asks, if the token does not.
func (i *Identity) exchange(ctx context.Context, transport http.RoundTripper, ca []byte, token string) error {
	c := i.config
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + c.NodeName, Organization: []string{"system:nodes"}}}
	clientReq, clientPEM, err := keyAndRequest(template)
	if err != nil {
		return err
	}
	serving := &x509.CertificateRequest{Subject: template.Subject, DNSNames: []string{c.NodeName}}
	for _, ip := range c.NodeIPs {
		if parsed := net.ParseIP(ip); parsed != nil {
			serving.IPAddresses = append(serving.IPAddresses, parsed)
		}
	}
	servingReq, servingPEM, err := keyAndRequest(serving)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"nodeName": c.NodeName, "csr": string(clientReq), "servingCSR": string(servingReq)})
	if err != nil {
		return fmt.Errorf("encode the request to join: %w", err)
	}
	rest, err := client.New(client.Config{URL: c.Server, Transport: transport, Token: token, UserAgent: "proa/agent"})
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	resp, err := rest.Do(ctx, client.Request{Method: http.MethodPost, Path: "/proa/v1/join", Body: body})
	if err != nil {
		return fmt.Errorf("join as node %q: %w", c.NodeName, err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	var answer struct{ Certificate, ServingCertificate, CA string }
	if err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return fmt.Errorf("read the answer to joining: %w", err)
	}
	p, err := parse(ca, []byte(answer.Certificate), clientPEM, []byte(answer.ServingCertificate), servingPEM)
	if err != nil {
		return fmt.Errorf("use the answer to joining: %w", err)
	}
	err = save(c.Dir, map[string][]byte{
		caFile: ca, clientCert: []byte(answer.Certificate), clientKey: clientPEM,
		servingCert: []byte(answer.ServingCertificate), servingKey: servingPEM,
	})
	if err != nil {
		return fmt.Errorf("keep the node's certificates: %w", err)
	}
	i.current.Store(p)
	return nil
}

func keyAndRequest(template *x509.CertificateRequest) (request, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, k)
	if err != nil {
		return nil, nil, fmt.Errorf("make a signing request: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}

func parse(ca, cert, key, servingCert, servingKey []byte) (*pairs, error) {
	p := &pairs{ca: ca}
	var err error
	if p.client, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, err
	}
	if p.serving, err = tls.X509KeyPair(servingCert, servingKey); err != nil {
		return nil, err
	}
	return p, nil
}

// load reads what save wrote, if it is for this node and its addresses.
func load(c Config) (*pairs, error) {
	files := map[string][]byte{}
	for _, name := range []string{caFile, clientCert, clientKey, servingCert, servingKey} {
		b, err := os.ReadFile(filepath.Join(c.Dir, name)) // the folder of the node's own keys
		if err != nil {
			return nil, err
		}
		files[name] = b
	}
	p, err := parse(files[caFile], files[clientCert], files[clientKey], files[servingCert], files[servingKey])
	if err != nil {
		return nil, err
	}
	if p.client.Leaf.Subject.CommonName != "system:node:"+c.NodeName {
		return nil, fmt.Errorf("the certificates in %q are of another node", c.Dir)
	}
	for _, ip := range c.NodeIPs {
		if err := p.serving.Leaf.VerifyHostname(ip); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// save writes all files, each whole or not at all; the certificates last, so
// that a new one is never with an old key for long.
func save(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{caFile, clientKey, servingKey, clientCert, servingCert} {
		tmp := filepath.Join(dir, name+".tmp")
		if err := os.WriteFile(tmp, files[name], 0o600); err != nil {
			return err
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// left returns how long both certificates are still good.
func left(p *pairs) time.Duration {
	end := p.client.Leaf.NotAfter
	if e := p.serving.Leaf.NotAfter; e.Before(end) {
		end = e
	}
	return time.Until(end)
}

// REST returns a client of the API server as the node.
func (i *Identity) REST() (*client.REST, error) {
	transport, err := i.transport()
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{URL: i.config.Server, Transport: transport, UserAgent: "proa/agent"})
}

func (i *Identity) transport() (*http.Transport, error) {
	t, err := client.NewTransport(client.TLS{
		CA:      i.current.Load().ca,
		GetCert: func() (*tls.Certificate, error) { return &i.current.Load().client, nil },
	})
	if err != nil {
		return nil, fmt.Errorf("trust the cluster's root: %w", err)
	}
	return t, nil
}

// TLS returns the configuration of the node's own server, which lets in whom
// the cluster's root vouches for.
func (i *Identity) TLS() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(i.current.Load().ca)
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &i.current.Load().serving, nil
		},
	}
}

// CA returns the cluster's root, PEM.
func (i *Identity) CA() []byte { return bytes.Clone(i.current.Load().ca) }

// Renew renews the certificates when a third of their time is left, until ctx
// is done, and returns its error.
func (i *Identity) Renew(ctx context.Context) error {
	for wait := time.Duration(0); ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		p := i.current.Load()
		whole := p.client.Leaf.NotAfter.Sub(p.client.Leaf.NotBefore)
		if rest := left(p) - whole/3; rest > 0 {
			wait = min(rest, time.Hour)
			continue
		}
		if err := i.renew(ctx); err != nil {
			i.config.Log.Warn().Err(err).Dur("left_ms", left(p)).Msg("cannot renew the node's certificates")
			wait = time.Minute
			continue
		}
		i.config.Log.Info().Msg("renewed the node's certificates")
		wait = time.Second
	}
}

func (i *Identity) renew(ctx context.Context) error {
	transport, err := i.transport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	return i.exchange(ctx, transport, i.current.Load().ca, "")
}
