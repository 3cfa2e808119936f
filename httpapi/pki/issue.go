package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The identity of node agents.
const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// ErrBadRequest is a certificate signing request that must not be signed.
var ErrBadRequest = errors.New("certificate signing request refused")

// A Pair is a certificate and its private key, both PEM.
type Pair struct {
	Certificate, Key []byte
}

// TLS returns the pair as crypto/tls wants it.
func (p Pair) TLS() (tls.Certificate, error) { return tls.X509KeyPair(p.Certificate, p.Key) }

// Client makes a key and a client certificate for a user in the groups. It
// lasts a year and is not kept.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	cert, err := a.leaf(a.cluster, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, &key.PublicKey)
	return Pair{Certificate: cert, Key: keyPEM}, err
}

// SignNodeClient signs the request of a node agent for the certificate by
// which it identifies itself to the API server, and returns it as PEM. The
// subject in the request must be the node's or empty. The error wraps
// ErrBadRequest if the request is no good.
func (a *Authority) SignNodeClient(csr []byte, nodeName string) ([]byte, error) {
	req, err := parseRequest(csr, nodeName)
	if err != nil {
		return nil, err
	}
	if len(req.DNSNames)+len(req.IPAddresses)+len(req.EmailAddresses)+len(req.URIs) > 0 {
		return nil, fmt.Errorf("%w: a client certificate carries no alternative names", ErrBadRequest)
	}
	return a.leaf(a.cluster, &x509.Certificate{
		Subject:     nodeSubject(nodeName),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, req.PublicKey)
}

// SignNodeServing signs the request of a node agent for the certificate that
// it serves with, and returns it as PEM. The node's own name is always among
// its names; the IP addresses are those of the request. Other names must be
// below the node's: node.example.com of node. The error wraps ErrBadRequest
// if the request is no good.
func (a *Authority) SignNodeServing(csr []byte, nodeName string) ([]byte, error) {
	req, err := parseRequest(csr, nodeName)
	if err != nil {
		return nil, err
	}
	if len(req.EmailAddresses)+len(req.URIs) > 0 {
		return nil, fmt.Errorf("%w: a serving certificate carries names and addresses only", ErrBadRequest)
	}
	names := []string{nodeName}
	for _, n := range req.DNSNames {
		n = strings.ToLower(n)
		if n != nodeName && !strings.HasPrefix(n, nodeName+".") {
			return nil, fmt.Errorf("%w: %q is not a name of node %q", ErrBadRequest, n, nodeName)
		}
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, ip := range req.IPAddresses {
		if ip.IsUnspecified() || ip.IsMulticast() {
			return nil, fmt.Errorf("%w: %s is not the address of a host", ErrBadRequest, ip)
		}
	}
	return a.leaf(a.nodes, &x509.Certificate{
		Subject:     nodeSubject(nodeName),
		DNSNames:    names,
		IPAddresses: req.IPAddresses,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, req.PublicKey)
}

func nodeSubject(nodeName string) pkix.Name {
	return pkix.Name{CommonName: nodeUserPrefix + nodeName, Organization: []string{nodesGroup}}
}

// parseRequest checks what both requests of a node have in common.
func parseRequest(data []byte, nodeName string) (*x509.CertificateRequest, error) {
	if msgs := validation.IsDNS1123Subdomain(nodeName); len(msgs) > 0 {
		return nil, fmt.Errorf("%w: node name %q: %s", ErrBadRequest, nodeName, strings.Join(msgs, ", "))
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, fmt.Errorf("%w: no PEM block of type CERTIFICATE REQUEST", ErrBadRequest)
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	want := nodeSubject(nodeName)
	if cn := req.Subject.CommonName; cn != "" && cn != want.CommonName {
		return nil, fmt.Errorf("%w: common name %q is not %q", ErrBadRequest, cn, want.CommonName)
	}
	if o := req.Subject.Organization; len(o) > 0 && !slices.Equal(o, want.Organization) {
		return nil, fmt.Errorf("%w: organization %q is not %q", ErrBadRequest, o, want.Organization)
	}
	switch k := req.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 || k.N.BitLen() > 8192 {
			return nil, fmt.Errorf("%w: RSA key of %d bits, want 2048 to 8192", ErrBadRequest, k.N.BitLen())
		}
	default:
		return nil, fmt.Errorf("%w: key of type %T", ErrBadRequest, req.PublicKey)
	}
	return req, nil
}

// hostOf returns the host of an address with or without a port.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}
