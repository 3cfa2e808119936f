package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/proa-project/proa/httpapi/request"
)

// credentialID is the key in a user's Extra that names the credential.
const credentialID = "authentication.kubernetes.io/credential-id"

// maxCachedCerts bounds the memory of verified certificates.
const maxCachedCerts = 4096

// ClientCerts knows users by the client certificate of the connection: the
// common name is the user, the organizations are the groups.
type ClientCerts struct {
	// Pool holds the roots of client certificates.
	Pool *x509.CertPool
	// Now is the clock; the default is time.Now.
	Now func() time.Time

	mu sync.RWMutex // guards verified
	// verified holds the outcome of certificates that were good. crypto/tls
	// hands out one pointer per connection at least, so the pointer will do.
	verified map[*x509.Certificate]verifiedCert
}

type verifiedCert struct {
	user *request.User
	end  time.Time // of the certificates in the chain, the first
}

// Authenticate returns nil if the connection has no client certificate.
func (c *ClientCerts) Authenticate(r *http.Request) (*request.User, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	leaf := r.TLS.PeerCertificates[0]
	c.mu.RLock()
	v, ok := c.verified[leaf]
	c.mu.RUnlock()
	if ok && now().Before(v.end) {
		return v.user, nil
	}
	v, err := c.verify(r.TLS.PeerCertificates, now())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.verified == nil || len(c.verified) >= maxCachedCerts {
		c.verified = map[*x509.Certificate]verifiedCert{}
	}
	c.verified[leaf] = v
	return v.user, nil
}

func (c *ClientCerts) verify(certs []*x509.Certificate, now time.Time) (verifiedCert, error) {
	intermediates := x509.NewCertPool()
	for _, ic := range certs[1:] {
		intermediates.AddCert(ic)
	}
	leaf := certs[0]
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots:         c.Pool,
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return verifiedCert{}, fmt.Errorf("%w: client certificate: %w", ErrUnauthenticated, err)
	}
	if leaf.Subject.CommonName == "" {
		return verifiedCert{}, fmt.Errorf("%w: client certificate: it has no common name", ErrUnauthenticated)
	}
	end := leaf.NotAfter
	for _, cert := range chains[0] {
		if cert.NotAfter.Before(end) {
			end = cert.NotAfter
		}
	}
	sum := sha256.Sum256(leaf.Raw)
	return verifiedCert{end: end, user: &request.User{
		Name:   leaf.Subject.CommonName,
		Groups: withAuthenticated(leaf.Subject.Organization),
		Extra:  map[string][]string{credentialID: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}}, nil
}

// withAuthenticated returns a new slice of the groups and request.Authenticated.
func withAuthenticated(groups []string) []string {
	if slices.Contains(groups, request.Authenticated) {
		return slices.Clone(groups)
	}
	return append(slices.Clone(groups), request.Authenticated)
}
