package authn

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/httpapi/request"
)

// DefaultIssuer is who signs service account tokens, and their audience.
const DefaultIssuer = "https://kubernetes.default.svc"

const (
	// recheck is how long a verified token is taken as good without looking
	// whether its account and bound object are still there.
	recheck = 10 * time.Second
	// maxCachedTokens bounds the memory of verified tokens.
	maxCachedTokens = 8192
	// maxToken is the limit of a token in bytes; ours have about 1 KiB.
	maxToken = 16 << 10
)

// A Reference is what a service account token depends on.
type Reference struct {
	UID types.UID
	// ServiceAccount and NodeName are set for pods.
	ServiceAccount, NodeName string
}

// Referents looks up what tokens depend on.
type Referents interface {
	// Referent returns an object of core/v1: serviceaccounts, pods, secrets
	// or nodes. It returns nil and no error if the object is not there. The
	// namespace is "" for nodes.
	Referent(ctx context.Context, resource, namespace, name string) (*Reference, error)
}

// ServiceAccountsConfig says how service account tokens are signed.
type ServiceAccountsConfig struct {
	// Key signs: ECDSA P-256 (ES256) or RSA (RS256).
	Key crypto.Signer
	// OldKeys are public keys whose tokens are still good.
	OldKeys []crypto.PublicKey
	// Issuer is the default DefaultIssuer.
	Issuer string
	// Audiences are those of the API server; the default is the issuer.
	Audiences []string
	// Referents looks up accounts and what tokens are bound to.
	Referents Referents
	// Now is the clock; the default is time.Now.
	Now func() time.Time
}

// ServiceAccounts issues and knows service account tokens.
type ServiceAccounts struct {
	cfg    ServiceAccountsConfig
	method jwt.SigningMethod
	keyID  string
	keys   map[string]verifyKey // by key ID
	parser *jwt.Parser

	mu     sync.RWMutex           // guards tokens
	tokens map[string]cachedToken // verified, by token
}

type verifyKey struct {
	public crypto.PublicKey
	method jwt.SigningMethod
}

type cachedToken struct {
	user    *request.User
	claims  *accountClaims
	recheck time.Time
}

// NewServiceAccounts returns an issuer. The error says which key is no good.
func NewServiceAccounts(cfg ServiceAccountsConfig) (*ServiceAccounts, error) {
	if cfg.Issuer == "" {
		cfg.Issuer = DefaultIssuer
	}
	if len(cfg.Audiences) == 0 {
		cfg.Audiences = []string{cfg.Issuer}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Key == nil || cfg.Referents == nil {
		return nil, errors.New("service account tokens: a key and referents are needed")
	}
	s := &ServiceAccounts{cfg: cfg, keys: map[string]verifyKey{}, tokens: map[string]cachedToken{}}
	for i, k := range append([]crypto.PublicKey{cfg.Key.Public()}, cfg.OldKeys...) {
		method, err := methodOf(k)
		if err != nil {
			return nil, err
		}
		id, err := keyID(k)
		if err != nil {
			return nil, err
		}
		s.keys[id] = verifyKey{public: k, method: method}
		if i == 0 {
			s.method, s.keyID = method, id
		}
	}
	s.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{"ES256", "RS256"}),
		jwt.WithTimeFunc(cfg.Now),
		jwt.WithExpirationRequired(),
		jwt.WithIssuer(cfg.Issuer),
	)
	return s, nil
}

func methodOf(key crypto.PublicKey) (jwt.SigningMethod, error) {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve.Params().BitSize == 256 {
			return jwt.SigningMethodES256, nil
		}
	case *rsa.PublicKey:
		if k.N.BitLen() >= 2048 {
			return jwt.SigningMethodRS256, nil
		}
	}
	return nil, fmt.Errorf("service account tokens: unsupported key %T", key)
}

// keyID names a key as kube-apiserver does, so that its tokens stay good.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("service account tokens: encode key: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// accountClaims are the contents of a token.
type accountClaims struct {
	jwt.RegisteredClaims
	Kubernetes kubernetesClaims `json:"kubernetes.io"`
}

type kubernetesClaims struct {
	Namespace      string       `json:"namespace"`
	ServiceAccount objectClaim  `json:"serviceaccount"`
	Pod            *objectClaim `json:"pod,omitempty"`
	Secret         *objectClaim `json:"secret,omitempty"`
	Node           *objectClaim `json:"node,omitempty"`
}

type objectClaim struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// VerifyToken returns nil for a token that this issuer did not make.
func (s *ServiceAccounts) VerifyToken(ctx context.Context, token string) (*request.User, error) {
	now := s.cfg.Now()
	s.mu.RLock()
	c, ok := s.tokens[token]
	s.mu.RUnlock()
	if ok && now.Before(c.claims.ExpiresAt.Time) {
		if now.Before(c.recheck) {
			return c.user, nil
		}
	} else {
		if !s.isOurs(token) {
			return nil, nil
		}
		claims, err := s.parse(token)
		if err != nil {
			return nil, err
		}
		c = cachedToken{claims: claims, user: claims.user()}
	}
	if err := s.check(ctx, c.claims); err != nil {
		s.mu.Lock()
		delete(s.tokens, token)
		s.mu.Unlock()
		return nil, err
	}
	c.recheck = now.Add(recheck)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tokens) >= maxCachedTokens {
		clear(s.tokens)
	}
	s.tokens[strings.Clone(token)] = c
	return c.user, nil
}

// isOurs looks at the issuer before any work is done on a signature.
func (s *ServiceAccounts) isOurs(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(payload, &claims) == nil && claims.Issuer == s.cfg.Issuer
}

// parse returns the claims of a token that is for the API server.
func (s *ServiceAccounts) parse(token string) (*accountClaims, error) {
	claims, err := s.parseAny(token)
	if err != nil {
		return nil, err
	}
	if len(common(claims.Audience, s.cfg.Audiences)) == 0 {
		return nil, fmt.Errorf("%w: service account token is for another audience", ErrUnauthenticated)
	}
	return claims, nil
}

// parseAny returns the claims of a token for whoever.
func (s *ServiceAccounts) parseAny(token string) (*accountClaims, error) {
	claims := &accountClaims{}
	_, err := s.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string) // "" is nobody's
		k, ok := s.keys[id]
		if !ok || t.Method.Alg() != k.method.Alg() {
			return nil, errors.New("unknown key")
		}
		return k.public, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: service account token: %w", ErrUnauthenticated, err)
	}
	k := &claims.Kubernetes
	if claims.Subject != userName(k.Namespace, k.ServiceAccount.Name) || k.Namespace == "" || k.ServiceAccount.Name == "" {
		return nil, fmt.Errorf("%w: service account token: subject and claims differ", ErrUnauthenticated)
	}
	return claims, nil
}

// A dependency is an object without which a token is no good.
type dependency struct {
	resource, namespace string
	claim               *objectClaim
}

// check looks whether the account and the bound object are still there.
func (s *ServiceAccounts) check(ctx context.Context, c *accountClaims) error {
	k := &c.Kubernetes
	objects := []dependency{
		{"serviceaccounts", k.Namespace, &k.ServiceAccount},
		{"pods", k.Namespace, k.Pod},
		{"secrets", k.Namespace, k.Secret},
	}
	// The node of a pod's token is information; only a token that is bound to
	// the node itself ends with it.
	if k.Pod == nil {
		objects = append(objects, dependency{"nodes", "", k.Node})
	}
	for _, o := range objects {
		if o.claim == nil {
			continue
		}
		ref, err := s.cfg.Referents.Referent(ctx, o.resource, o.namespace, o.claim.Name)
		if err != nil {
			return fmt.Errorf("look up %s %q of service account token: %w", o.resource, o.claim.Name, err)
		}
		if ref == nil || ref.UID != o.claim.UID {
			return fmt.Errorf("%w: service account token: its %s %q is gone", ErrUnauthenticated, o.resource, o.claim.Name)
		}
	}
	return nil
}

func userName(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// user returns who shows a token with the claims.
func (c *accountClaims) user() *request.User {
	k := &c.Kubernetes
	extra := map[string][]string{}
	if c.ID != "" {
		extra[credentialID] = []string{"JTI=" + c.ID}
	}
	for kind, claim := range map[string]*objectClaim{"pod": k.Pod, "node": k.Node} {
		if claim != nil {
			extra["authentication.kubernetes.io/"+kind+"-name"] = []string{claim.Name}
			if claim.UID != "" {
				extra["authentication.kubernetes.io/"+kind+"-uid"] = []string{string(claim.UID)}
			}
		}
	}
	return &request.User{
		Name:   userName(k.Namespace, k.ServiceAccount.Name),
		UID:    string(k.ServiceAccount.UID),
		Groups: []string{request.ServiceAccounts, request.ServiceAccounts + ":" + k.Namespace, request.Authenticated},
		Extra:  extra,
	}
}
