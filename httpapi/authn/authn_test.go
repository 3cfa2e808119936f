package authn_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/pki"
	"github.com/proa-project/proa/httpapi/request"
)

func peer(t testing.TB, p pki.Pair) *tls.ConnectionState {
	t.Helper()
	c, err := pki.ParseCertificate(p.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
}

func authority(t testing.TB) *pki.Authority {
	t.Helper()
	a, err := pki.Open(pki.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func client(t testing.TB, a *pki.Authority, user string, groups ...string) pki.Pair {
	t.Helper()
	p, err := a.Client(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestClientCerts(t *testing.T) {
	a := authority(t)
	now := time.Now()
	certs := &authn.ClientCerts{Pool: a.Pool(), Now: func() time.Time { return now }}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if u, err := certs.Authenticate(r); u != nil || err != nil {
		t.Errorf("no TLS: %v, %v", u, err)
	}
	r.TLS = &tls.ConnectionState{}
	if u, err := certs.Authenticate(r); u != nil || err != nil {
		t.Errorf("no certificate: %v, %v", u, err)
	}
	r.TLS = peer(t, client(t, a, "jane", "dev", "ops"))
	for range 2 {
		u, err := certs.Authenticate(r)
		if err != nil {
			t.Fatal(err)
		}
		if u.Name != "jane" || !cmp.Equal(u.Groups, []string{"dev", "ops", "system:authenticated"}) {
			t.Errorf("user is %+v", u)
		}
	}
	now = now.Add(366 * 24 * time.Hour)
	if u, err := certs.Authenticate(r); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
		t.Errorf("expired after it was cached: %v, %v", u, err)
	}
	now = time.Now()
	for name, p := range map[string]pki.Pair{
		"of another authority": client(t, authority(t), "jane", "system:masters"),
		"without a name":       client(t, a, ""),
	} {
		r.TLS = peer(t, p)
		if u, err := certs.Authenticate(r); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
			t.Errorf("%s: %v, %v", name, u, err)
		}
	}
	serving, err := a.Serving(pki.ServingConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := serving.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.Leaf}}
	if u, err := certs.Authenticate(r); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
		t.Errorf("serving certificate as client's: %v, %v", u, err)
	}
}

type referents map[string]*authn.Reference

func (m referents) Referent(_ context.Context, resource, namespace, name string) (*authn.Reference, error) {
	return m[resource+"/"+namespace+"/"+name], nil
}

func cluster() referents {
	return referents{
		"serviceaccounts/shop/web": {UID: "sa-1"},
		"pods/shop/web-1":          {UID: "pod-1", ServiceAccount: "web", NodeName: "n1"},
		"pods/shop/db-1":           {UID: "pod-2", ServiceAccount: "db"},
		"secrets/shop/s":           {UID: "secret-1"},
		"nodes//n1":                {UID: "node-1"},
	}
}

func accounts(t testing.TB, refs referents, now *time.Time, key crypto.Signer) *authn.ServiceAccounts {
	t.Helper()
	s, err := authn.NewServiceAccounts(authn.ServiceAccountsConfig{Key: key, Referents: refs, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ecKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func issue(t testing.TB, s *authn.ServiceAccounts, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	tr, err := s.Issue(context.Background(), "shop", "web", &authenticationv1.TokenRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return tr.Status.Token
}

func TestServiceAccounts(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for alg, key := range map[string]crypto.Signer{"ES256": ecKey(t), "RS256": rsaKey} {
		t.Run(alg, func(t *testing.T) {
			ctx := context.Background()
			refs, now := cluster(), time.Now()
			s := accounts(t, refs, &now, key)
			token := issue(t, s, authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "web-1", UID: "pod-1"},
			})
			parsed, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
			if err != nil || parsed.Method.Alg() != alg || parsed.Header["kid"] == "" {
				t.Fatalf("header is %v, %v", parsed.Header, err)
			}
			claims := parsed.Claims.(jwt.MapClaims)
			want := map[string]any{
				"namespace": "shop", "serviceaccount": map[string]any{"name": "web", "uid": "sa-1"},
				"pod": map[string]any{"name": "web-1", "uid": "pod-1"}, "node": map[string]any{"name": "n1", "uid": "node-1"},
			}
			if d := cmp.Diff(want, claims["kubernetes.io"]); d != "" || claims["iss"] != authn.DefaultIssuer || claims["sub"] != "system:serviceaccount:shop:web" {
				t.Errorf("claims %v: %s", claims, d)
			}
			u, err := s.VerifyToken(ctx, token)
			if err != nil {
				t.Fatal(err)
			}
			if u.Name != "system:serviceaccount:shop:web" || u.UID != "sa-1" || !cmp.Equal(u.Groups, []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}) {
				t.Errorf("user is %+v", u)
			}
			if !cmp.Equal(u.Extra["authentication.kubernetes.io/pod-name"], []string{"web-1"}) || !cmp.Equal(u.Extra["authentication.kubernetes.io/node-uid"], []string{"node-1"}) {
				t.Errorf("extra is %v", u.Extra)
			}

			delete(refs, "pods/shop/web-1")
			now = now.Add(11 * time.Second)
			if u, err := s.VerifyToken(ctx, token); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
				t.Errorf("pod is gone: %v, %v", u, err)
			}
			refs["pods/shop/web-1"] = &authn.Reference{UID: "pod-9"}
			if u, err := s.VerifyToken(ctx, token); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
				t.Errorf("pod is another: %v, %v", u, err)
			}
		})
	}
}

func TestServiceAccounts_refusals(t *testing.T) {
	ctx := context.Background()
	refs, now := cluster(), time.Now()
	key := ecKey(t)
	s := accounts(t, refs, &now, key)
	good := issue(t, s, authenticationv1.TokenRequestSpec{})
	forged := issue(t, accounts(t, refs, &now, ecKey(t)), authenticationv1.TokenRequestSpec{})
	elsewhere := issue(t, s, authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"iss": authn.DefaultIssuer, "sub": "system:serviceaccount:shop:web", "exp": now.Add(time.Hour).Unix()}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	confusedToken := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": authn.DefaultIssuer, "sub": "system:serviceaccount:shop:web", "exp": now.Add(time.Hour).Unix()})
	confused, err := confusedToken.SignedString(public)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"another key": forged, "another audience": elsewhere, "alg none": none, "alg HS256": confused,
		"cut signature": parts[0] + "." + parts[1] + "." + parts[2][:10],
	} {
		if u, err := s.VerifyToken(ctx, token); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
			t.Errorf("%s: %v, %v", name, u, err)
		}
	}
	foreign, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": "https://example.com"}).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"opaque": "hunter2", "foreign issuer": foreign, "dots": "a.b.c"} {
		if u, err := s.VerifyToken(ctx, token); u != nil || err != nil {
			t.Errorf("%s is not ours: %v, %v", name, u, err)
		}
	}
	if u, err := s.VerifyToken(ctx, good); u == nil || err != nil {
		t.Fatal(err)
	}
	now = now.Add(61 * time.Minute)
	if u, err := s.VerifyToken(ctx, good); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
		t.Errorf("expired: %v, %v", u, err)
	}
}

func TestServiceAccounts_oldKey(t *testing.T) {
	refs, now, old := cluster(), time.Now(), ecKey(t)
	token := issue(t, accounts(t, refs, &now, old), authenticationv1.TokenRequestSpec{})
	s, err := authn.NewServiceAccounts(authn.ServiceAccountsConfig{Key: ecKey(t), OldKeys: []crypto.PublicKey{old.Public()}, Referents: refs})
	if err != nil {
		t.Fatal(err)
	}
	if u, err := s.VerifyToken(context.Background(), token); u == nil || err != nil {
		t.Errorf("token of an old key: %v, %v", u, err)
	}
}

func TestIssue_refusals(t *testing.T) {
	refs, now := cluster(), time.Now()
	s := accounts(t, refs, &now, ecKey(t))
	short, long := int64(599), int64(1<<32+1)
	bound := func(kind, version, name, uid string) authenticationv1.TokenRequestSpec {
		return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: kind, APIVersion: version, Name: name, UID: types.UID(uid)}}
	}
	for _, tt := range []struct {
		name, account string
		spec          authenticationv1.TokenRequestSpec
		is            func(error) bool
		text          string
	}{
		{"too short", "web", authenticationv1.TokenRequestSpec{ExpirationSeconds: &short}, apierrors.IsInvalid, "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"},
		{"too long", "web", authenticationv1.TokenRequestSpec{ExpirationSeconds: &long}, apierrors.IsInvalid, "may not specify a duration larger than 2^32 seconds"},
		{"no account", "nobody", authenticationv1.TokenRequestSpec{}, apierrors.IsNotFound, `serviceaccounts "nobody" not found`},
		{"no pod", "web", bound("Pod", "v1", "x", ""), apierrors.IsNotFound, `pods "x" not found`},
		{"pod of another account", "web", bound("Pod", "v1", "db-1", ""), apierrors.IsBadRequest, "different serviceaccount"},
		{"another pod of the name", "web", bound("Pod", "v1", "web-1", "other"), apierrors.IsConflict, "does not match"},
		{"another kind", "web", bound("Deployment", "apps/v1", "d", ""), apierrors.IsBadRequest, "cannot bind token"},
	} {
		_, err := s.Issue(context.Background(), "shop", tt.account, &authenticationv1.TokenRequest{Spec: tt.spec})
		if !tt.is(err) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for kind, name := range map[string]string{"Secret": "s", "Node": "n1"} {
		tr, err := s.Issue(context.Background(), "shop", "web", &authenticationv1.TokenRequest{Spec: bound(kind, "v1", name, "")})
		if err != nil {
			t.Fatal(err)
		}
		if *tr.Spec.ExpirationSeconds != 3600 || !cmp.Equal(tr.Spec.Audiences, []string{authn.DefaultIssuer}) || tr.Name != "web" {
			t.Errorf("answer is %+v", tr)
		}
		delete(refs, map[string]string{"Secret": "secrets/shop/s", "Node": "nodes//n1"}[kind])
		if u, err := s.VerifyToken(context.Background(), tr.Status.Token); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
			t.Errorf("%s is gone: %v, %v", kind, u, err)
		}
	}
}

type secrets map[string]*corev1.Secret

func (m secrets) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return m[namespace+"/"+name], nil
}

func TestJoinTokens(t *testing.T) {
	now := time.Now()
	fresh := func(change func(*corev1.Secret)) (*authn.JoinTokens, string) {
		s, token, err := authn.NewJoinSecret(now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(s)
		}
		return &authn.JoinTokens{Secrets: secrets{s.Namespace + "/" + s.Name: s}, Now: func() time.Time { return now }}, token
	}
	j, token := fresh(func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:bootstrappers:edge") })
	u, err := j.VerifyToken(context.Background(), token)
	if err != nil {
		t.Fatal(err)
	}
	if u.Name != "system:bootstrap:"+token[:6] || !cmp.Equal(u.Groups, []string{"system:bootstrappers", "system:bootstrappers:edge", "system:authenticated"}) {
		t.Errorf("user is %+v", u)
	}
	for _, other := range []string{"", "abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef0", "abcdef.0123456789abcdef\n"} {
		if u, err := j.VerifyToken(context.Background(), other); u != nil || err != nil {
			t.Errorf("%q is no join token: %v, %v", other, u, err)
		}
	}
	for name, wrong := range map[string]string{"wrong secret": token[:22] + "-", "unknown": "zzzzzz.0123456789abcdef"} {
		if name == "wrong secret" {
			last := byte('a')
			if token[22] == 'a' {
				last = 'b'
			}
			wrong = token[:22] + string(last)
		}
		if u, err := j.VerifyToken(context.Background(), wrong); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
			t.Errorf("%s: %v, %v", name, u, err)
		}
	}
	for name, change := range map[string]func(*corev1.Secret){
		"expired":              func(s *corev1.Secret) { s.Data["expiration"] = []byte(now.Add(-time.Second).Format(time.RFC3339)) },
		"malformed expiration": func(s *corev1.Secret) { s.Data["expiration"] = []byte("tomorrow") },
		"another use":          func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") },
		"another type":         func(s *corev1.Secret) { s.Type = "Opaque" },
		"another id inside":    func(s *corev1.Secret) { s.Data["token-id"] = []byte("aaaaa0") },
		"no secret inside":     func(s *corev1.Secret) { delete(s.Data, "token-secret") },
		"being deleted":        func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} },
		"masters as group":     func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") },
	} {
		j, token := fresh(change)
		if u, err := j.VerifyToken(context.Background(), token); u != nil || !errors.Is(err, authn.ErrUnauthenticated) {
			t.Errorf("%s: %v, %v", name, u, err)
		}
	}
}

func TestBearer(t *testing.T) {
	b := authn.Bearer{authn.NewStatic(map[string]*request.User{"t0ken": {Name: "controllers", Groups: []string{"system:masters"}}})}
	encoded := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("t0ken"))
	for _, tt := range []struct {
		name, header, value string
		user                string
		bad                 bool
		left                string
	}{
		{"none", "Accept", "*/*", "", false, "*/*"},
		{"good", "Authorization", "Bearer t0ken", "controllers", false, ""},
		{"scheme in lower case", "Authorization", "bearer t0ken", "controllers", false, ""},
		{"unknown", "Authorization", "Bearer other", "", true, "Bearer other"},
		{"empty", "Authorization", "Bearer ", "", false, "Bearer "},
		{"basic", "Authorization", "Basic t0ken", "", false, "Basic t0ken"},
		{"WebSocket", "Sec-WebSocket-Protocol", "v5.channel.k8s.io, " + encoded, "controllers", false, "v5.channel.k8s.io"},
		{"WebSocket alone", "Sec-WebSocket-Protocol", encoded, "", true, encoded},
		{"WebSocket without", "Sec-WebSocket-Protocol", "v5.channel.k8s.io", "", false, "v5.channel.k8s.io"},
		{"WebSocket malformed", "Sec-WebSocket-Protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.%", "", true, "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.%"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set(tt.header, tt.value)
		u, err := authn.Chain{b}.Authenticate(r)
		name := ""
		if u != nil {
			name = u.Name
		}
		if name != tt.user || errors.Is(err, authn.ErrUnauthenticated) != tt.bad || r.Header.Get(tt.header) != tt.left {
			t.Errorf("%s: user %q, error %v, header %q", tt.name, name, err, r.Header.Get(tt.header))
		}
	}
}

func BenchmarkClientCerts(b *testing.B) {
	a := authority(b)
	certs := &authn.ClientCerts{Pool: a.Pool()}
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
	r.TLS = peer(b, client(b, a, "jane", "dev"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := certs.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkServiceAccounts(b *testing.B) {
	now := time.Now()
	s := accounts(b, cluster(), &now, ecKey(b))
	bearer := authn.Bearer{authn.NewStatic(nil), s, &authn.JoinTokens{}}
	token := "Bearer " + issue(b, s, authenticationv1.TokenRequestSpec{})
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		r.Header["Authorization"] = []string{token}
		if _, err := bearer.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}
