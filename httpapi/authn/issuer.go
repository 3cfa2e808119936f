package authn

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
)

// Where others learn how to verify service account tokens.
const (
	IssuerPath = "/.well-known/openid-configuration"
	KeysPath   = "/openid/v1/jwks"
)

// A webKey is a public key as JSON Web Key Sets have it.
type webKey struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv,omitempty"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	Modulus   string `json:"n,omitempty"`
	Exponent  string `json:"e,omitempty"`
}

// IssuerHandlers returns the handlers of IssuerPath and KeysPath, by path. The
// URL is the server's, under which others find KeysPath.
func (s *ServiceAccounts) IssuerHandlers(url string) (map[string]http.Handler, error) {
	var keys []webKey
	algorithms := []string{}
	for id, k := range s.keys {
		jwk := webKey{Use: "sig", ID: id, Algorithm: k.method.Alg()}
		switch public := k.public.(type) {
		case *ecdsa.PublicKey:
			point, err := public.Bytes() // 4, X, Y
			if err != nil {
				return nil, fmt.Errorf("publish service account key: %w", err)
			}
			half := len(point) / 2
			jwk.Type, jwk.Curve, jwk.X, jwk.Y = "EC", "P-256", encode(point[1:1+half]), encode(point[1+half:])
		case *rsa.PublicKey:
			jwk.Type, jwk.Modulus, jwk.Exponent = "RSA", encode(public.N.Bytes()), encode(big.NewInt(int64(public.E)).Bytes())
		}
		keys = append(keys, jwk)
		if !slices.Contains(algorithms, jwk.Algorithm) {
			algorithms = append(algorithms, jwk.Algorithm)
		}
	}
	slices.SortFunc(keys, func(a, b webKey) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(algorithms)
	configuration, err := json.Marshal(map[string]any{
		"issuer":                                s.cfg.Issuer,
		"jwks_uri":                              url + KeysPath,
		"response_types_supported":              []string{"id_token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": algorithms,
	})
	if err != nil {
		return nil, fmt.Errorf("publish service account issuer: %w", err)
	}
	set, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		return nil, fmt.Errorf("publish service account keys: %w", err)
	}
	return map[string]http.Handler{
		IssuerPath: published("application/json", configuration),
		KeysPath:   published("application/jwk-set+json", set),
	}, nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// published serves a text that others may keep for an hour.
func published(media string, data []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "public, max-age=3600")
		w.Write(data) //nolint:errcheck // the client is gone
	})
}
