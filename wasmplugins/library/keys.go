package library

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

// A Key is trusted to sign modules: Ed25519 over the module's bytes, or ECDSA
// P-256 over their SHA-256, in ASN.1 form.
type Key struct {
	Name   string
	Public crypto.PublicKey
}

// ParseKey returns the key in a PEM block "PUBLIC KEY".
func ParseKey(name string, text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return Key{}, fmt.Errorf("key %q: no PEM block", name)
	}
	if block.Type != "PUBLIC KEY" {
		return Key{}, fmt.Errorf("key %q: the PEM block is %q, not \"PUBLIC KEY\"", name, block.Type)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("key %q: %w", name, err)
	}
	k := Key{Name: name, Public: public}
	return k, checkKey(k)
}

func checkKey(k Key) error {
	switch p := k.Public.(type) {
	case ed25519.PublicKey:
		if len(p) == ed25519.PublicKeySize {
			return nil
		}
	case *ecdsa.PublicKey:
		if p.Curve == elliptic.P256() {
			return nil
		}
	}
	return fmt.Errorf("key %q: must be Ed25519 or ECDSA P-256", k.Name)
}

func checkKeys(keys []Key) error {
	seen := map[string]bool{}
	for _, k := range keys {
		if k.Name == "" {
			return errors.New("library: a key has no name")
		}
		if seen[k.Name] {
			return fmt.Errorf("library: two keys have the name %q", k.Name)
		}
		seen[k.Name] = true
		if err := checkKey(k); err != nil {
			return fmt.Errorf("library: %w", err)
		}
	}
	return nil
}

// Verify reports whether the signature of the bytes is the key's.
func (k Key) Verify(wasm, signature []byte) bool {
	switch p := k.Public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(p, wasm, signature)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(wasm)
		return ecdsa.VerifyASN1(p, sum[:], signature)
	}
	return false
}

// verify returns the signatures that are by trusted keys, with the keys' names.
// Without keys everything is trusted.
func verify(keys []Key, signatures []pluginsv1.ModuleSignature, wasm []byte) ([]pluginsv1.ModuleSignature, *Problem) {
	if len(keys) == 0 {
		return nil, nil
	}
	if len(signatures) == 0 {
		return nil, problemf(ReasonSignatureMissing, "there is no signature of the code; it must be signed by one of the trusted keys %s", names(keys)).finally()
	}
	var valid []pluginsv1.ModuleSignature
	for _, s := range signatures {
		for _, k := range keys {
			if (s.Key == "" || s.Key == k.Name) && k.Verify(wasm, s.Signature) {
				valid = append(valid, pluginsv1.ModuleSignature{Key: k.Name, Signature: s.Signature})
				break
			}
		}
	}
	if len(valid) == 0 {
		return nil, problemf(ReasonSignatureInvalid, "none of the signatures of the code (%d) is by one of the trusted keys %s", len(signatures), names(keys)).finally()
	}
	return valid, nil
}

func names(keys []Key) string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = fmt.Sprintf("%q", k.Name)
	}
	return strings.Join(out, ", ")
}
