package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// ServingConfig says under which names the API server is reached.
type ServingConfig struct {
	// Listen is the address to listen on, host:port. An unspecified host
	// (0.0.0.0, ::) stands for the addresses of the machine's interfaces.
	Listen string
	// Hosts are further names and IP addresses.
	Hosts []string
	// ClusterDomain is the suffix of service names; the default is
	// cluster.local.
	ClusterDomain string
	// ServiceIP is the address of the kubernetes Service, if there is one.
	ServiceIP net.IP
}

// Serving is the certificate of the API server. It replaces itself when its
// end is near.
type Serving struct {
	authority *Authority
	names     []string // sorted
	ips       []net.IP // sorted

	mu   sync.Mutex // guards cert
	cert *tls.Certificate
}

// Serving returns the API server's certificate: the one in the folder if it
// has all the names and lasts long enough, or a new one, which is kept.
func (a *Authority) Serving(cfg ServingConfig) (*Serving, error) {
	s := &Serving{authority: a}
	if err := s.collect(cfg); err != nil {
		return nil, err
	}
	path := filepath.Join(a.dir, servingFile)
	if data, err := os.ReadFile(path); err == nil {
		if cert, err := tls.X509KeyPair(data, data); err == nil && s.usable(cert.Leaf) {
			s.cert = &cert
			return s, nil
		}
	}
	if err := s.renew(); err != nil {
		return nil, err
	}
	return s, nil
}

// collect finds all names and addresses.
func (s *Serving) collect(cfg ServingConfig) error {
	domain := cfg.ClusterDomain
	if domain == "" {
		domain = "cluster.local"
	}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain}
	ips := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if cfg.ServiceIP != nil {
		ips = append(ips, cfg.ServiceIP)
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		names = append(names, host)
	}
	hosts := slices.Clone(cfg.Hosts)
	if host := hostOf(cfg.Listen); host != "" && !isUnspecified(host) {
		hosts = append(hosts, host)
	} else if cfg.Listen != "" {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return fmt.Errorf("find the addresses of this machine: %w", err)
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
				ips = append(ips, n.IP)
			}
		}
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			ips = append(ips, ip)
		} else if h != "" {
			names = append(names, h)
		}
	}
	slices.Sort(names)
	s.names = slices.Compact(names)
	for i := range ips {
		ips[i] = ips[i].To16()
	}
	slices.SortFunc(ips, func(a, b net.IP) int { return slices.Compare(a, b) })
	s.ips = slices.CompactFunc(ips, net.IP.Equal)
	return nil
}

func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}

// usable reports whether a certificate of the folder will do.
func (s *Serving) usable(leaf *x509.Certificate) bool {
	a := s.authority
	if leaf.CheckSignatureFrom(a.cluster.cert) != nil || !s.fresh(leaf) {
		return false
	}
	for _, n := range s.names {
		if !slices.Contains(leaf.DNSNames, n) {
			return false
		}
	}
	for _, ip := range s.ips {
		if !slices.ContainsFunc(leaf.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// fresh reports whether the certificate is valid and its end is not near. One
// that ends with its root cannot be bettered.
func (s *Serving) fresh(leaf *x509.Certificate) bool {
	now := s.authority.now()
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return false
	}
	return leaf.NotAfter.Sub(now) > renewBefore || !leaf.NotAfter.Before(s.authority.cluster.cert.NotAfter)
}

// renew makes and keeps a new certificate. The caller holds mu or is alone.
func (s *Serving) renew() error {
	a := s.authority
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	certPEM, err := a.leaf(a.cluster, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "proa-server"},
		DNSNames:    s.names,
		IPAddresses: s.ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &key.PublicKey)
	if err != nil {
		return err
	}
	data := slices.Concat(certPEM, keyPEM)
	cert, err := tls.X509KeyPair(data, data)
	if err != nil {
		return fmt.Errorf("load new serving certificate: %w", err)
	}
	if err := replaceFile(filepath.Join(a.dir, servingFile), data); err != nil {
		return fmt.Errorf("keep new serving certificate: %w", err)
	}
	s.cert = &cert
	return nil
}

// Certificate returns the certificate to show, after renewing it if its end
// is near. If that fails while the old one is valid, the old one is shown.
func (s *Serving) Certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fresh(s.cert.Leaf) {
		if err := s.renew(); err != nil && s.authority.now().After(s.cert.Leaf.NotAfter) {
			return nil, err
		}
	}
	return s.cert, nil
}

// TLS returns the configuration of the API server's listener: TLS 1.2 or
// later, HTTP/2, and client certificates asked for but not verified: that is
// for authn.ClientCerts, so that a bad one is answered with a Status.
func (s *Serving) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.RequestClientCert,
		ClientCAs:  s.authority.Pool(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.Certificate()
		},
	}
}

// NodeClientTLS returns the configuration with which the API server connects
// to node agents: it trusts the nodes' root only, and identifies itself with
// the certificate.
func (a *Authority) NodeClientTLS(client Pair) (*tls.Config, error) {
	cert, err := client.TLS()
	if err != nil {
		return nil, fmt.Errorf("load client certificate for nodes: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.NodePool(), Certificates: []tls.Certificate{cert}}, nil
}
