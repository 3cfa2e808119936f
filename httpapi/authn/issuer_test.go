package authn_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/proa-project/proa/httpapi/authn"
)

// TestIssuerHandlers verifies tokens with nothing but what is published.
func TestIssuerHandlers(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	refs, now, key := cluster(), time.Now(), ecKey(t)
	s, err := authn.NewServiceAccounts(authn.ServiceAccountsConfig{Key: key, OldKeys: []crypto.PublicKey{rsaKey.Public()}, Referents: refs})
	if err != nil {
		t.Fatal(err)
	}
	handlers, err := s.IssuerHandlers("https://api.example.com:6443")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string, into any) string {
		t.Helper()
		w := httptest.NewRecorder()
		handlers[path].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
		return w.Header().Get("Content-Type")
	}
	var configuration map[string]any
	read(authn.IssuerPath, &configuration)
	if configuration["issuer"] != authn.DefaultIssuer || configuration["jwks_uri"] != "https://api.example.com:6443/openid/v1/jwks" ||
		!cmp.Equal(configuration["id_token_signing_alg_values_supported"], []any{"ES256", "RS256"}) {
		t.Errorf("configuration is %v", configuration)
	}
	var set struct{ Keys []map[string]string }
	if media := read(authn.KeysPath, &set); media != "application/jwk-set+json" || len(set.Keys) != 2 {
		t.Fatalf("%s with %d keys", media, len(set.Keys))
	}
	number := func(text string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	keys := map[string]crypto.PublicKey{}
	for _, k := range set.Keys {
		if k["kty"] == "EC" {
			point := slices.Concat([]byte{4}, number(k["x"]), number(k["y"])) // uncompressed
			key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
			if err != nil {
				t.Fatal(err)
			}
			keys[k["kid"]] = key
		} else {
			keys[k["kid"]] = &rsa.PublicKey{N: new(big.Int).SetBytes(number(k["n"])), E: int(new(big.Int).SetBytes(number(k["e"])).Int64())}
		}
	}
	for _, token := range []string{
		issue(t, s, authenticationv1.TokenRequestSpec{}),
		issue(t, accounts(t, refs, &now, rsaKey), authenticationv1.TokenRequestSpec{}),
	} {
		if _, err := jwt.Parse(token, func(t *jwt.Token) (any, error) { return keys[t.Header["kid"].(string)], nil }); err != nil {
			t.Error(err)
		}
	}
}
