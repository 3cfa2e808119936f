package authn

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/request"
)

// The form of join tokens and their Secrets, which is that of Kubernetes'
// bootstrap tokens.
const (
	joinNamespace    = "kube-system"
	joinSecretPrefix = "bootstrap-token-"
	joinSecretType   = corev1.SecretType("bootstrap.kubernetes.io/token")
)

var (
	joinToken      = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	joinExtraGroup = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`)
)

// Secrets looks up one Secret; nil and no error if it is not there.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// JoinTokens knows the bootstrap tokens that are kept as Secrets.
type JoinTokens struct {
	Secrets Secrets
	// Now is the clock; the default is time.Now.
	Now func() time.Time
}

// VerifyToken returns nil for a token of another form.
func (j *JoinTokens) VerifyToken(ctx context.Context, token string) (*request.User, error) {
	m := joinToken.FindStringSubmatch(token)
	if m == nil {
		return nil, nil
	}
	id, secret := m[1], m[2]
	s, err := j.Secrets.Secret(ctx, joinNamespace, joinSecretPrefix+id)
	if err != nil {
		return nil, fmt.Errorf("look up join token %q: %w", id, err)
	}
	if s == nil || s.DeletionTimestamp != nil || s.Type != joinSecretType || string(s.Data["token-id"]) != id ||
		subtle.ConstantTimeCompare(s.Data["token-secret"], []byte(secret)) != 1 {
		return nil, fmt.Errorf("%w: unknown join token", ErrUnauthenticated)
	}
	if string(s.Data["usage-bootstrap-authentication"]) != "true" {
		return nil, fmt.Errorf("%w: join token is not for authentication", ErrUnauthenticated)
	}
	if end, ok := s.Data["expiration"]; ok && len(end) > 0 {
		t, err := time.Parse(time.RFC3339, string(end))
		if err != nil {
			return nil, fmt.Errorf("%w: join token has a malformed expiration", ErrUnauthenticated)
		}
		now := time.Now
		if j.Now != nil {
			now = j.Now
		}
		if !now().Before(t) {
			return nil, fmt.Errorf("%w: join token has expired", ErrUnauthenticated)
		}
	}
	groups := []string{request.Bootstrappers}
	for g := range strings.SplitSeq(string(s.Data["auth-extra-groups"]), ",") {
		if g == "" {
			continue
		}
		if !joinExtraGroup.MatchString(g) {
			return nil, fmt.Errorf("%w: join token has a malformed group", ErrUnauthenticated)
		}
		if !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return &request.User{Name: "system:bootstrap:" + id, Groups: withAuthenticated(groups)}, nil
}

// NewJoinSecret makes a join token that lives for the time, or for ever with
// 0, and the Secret to create for it.
func NewJoinSecret(now time.Time, life time.Duration) (*corev1.Secret, string, error) {
	id, err := randomText(6)
	if err != nil {
		return nil, "", err
	}
	secret, err := randomText(16)
	if err != nil {
		return nil, "", err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: joinNamespace, Name: joinSecretPrefix + id},
		Type:       joinSecretType,
		Data: map[string][]byte{
			"token-id":                       []byte(id),
			"token-secret":                   []byte(secret),
			"usage-bootstrap-authentication": []byte("true"),
		},
	}
	if life > 0 {
		s.Data["expiration"] = []byte(now.Add(life).UTC().Format(time.RFC3339))
	}
	return s, id + "." + secret, nil
}

// randomText returns n characters of a-z0-9, each as likely as any other.
func randomText(n int) (string, error) {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		k, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return "", fmt.Errorf("make join token: %w", err)
		}
		b[i] = alphabet[k.Int64()]
	}
	return string(b), nil
}
