package library_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proa-project/proa/wasmplugins/library"
)

// A signer is a key pair for tests.
type signer struct {
	key  library.Key
	sign func(wasm []byte) []byte
}

func publicPEM(t *testing.T, public crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func newEd25519(t *testing.T, name string) signer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := library.ParseKey(name, publicPEM(t, public))
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, func(wasm []byte) []byte { return ed25519.Sign(private, wasm) }}
}

func newECDSA(t *testing.T, name string) signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := library.ParseKey(name, publicPEM(t, private.Public()))
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, func(wasm []byte) []byte {
		sum := sha256.Sum256(wasm)
		b, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
		if err != nil {
			t.Error(err)
		}
		return b
	}}
}

func TestKeys(t *testing.T) {
	wasm := guest(1)
	for _, s := range []signer{newEd25519(t, "a"), newECDSA(t, "b")} {
		good := s.sign(wasm)
		bad := bytes.Clone(good)
		bad[len(bad)-1] ^= 1
		if !s.key.Verify(wasm, good) || s.key.Verify(wasm, bad) || s.key.Verify(guest(2), good) || s.key.Verify(wasm, nil) {
			t.Errorf("key %s does not tell good signatures", s.key.Name)
		}
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string][]byte{
		"no PEM block":                   []byte("key"),
		`not "PUBLIC KEY"`:               pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}),
		"must be Ed25519 or ECDSA P-256": publicPEM(t, rsaKey.Public()),
		`key "k": must be Ed25519`:       publicPEM(t, p384.Public()),
		`key "k": asn1`:                  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte{1}}),
	} {
		if _, err := library.ParseKey("k", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestOpenSSL: the signatures are those that openssl makes, with the commands
// of the documentation.
func TestOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	dir := t.TempDir()
	openssl := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "openssl", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	file := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := os.WriteFile(filepath.Join(dir, "p.wasm"), guest(1), 0o600); err != nil {
		t.Fatal(err)
	}
	openssl("genpkey", "-algorithm", "ed25519", "-out", "ed.pem")
	openssl("pkey", "-in", "ed.pem", "-pubout", "-out", "ed.pub")
	openssl("pkeyutl", "-sign", "-rawin", "-inkey", "ed.pem", "-in", "p.wasm", "-out", "ed.sig")
	openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ec.pem")
	openssl("ec", "-in", "ec.pem", "-pubout", "-out", "ec.pub")
	openssl("dgst", "-sha256", "-sign", "ec.pem", "-out", "ec.sig", "p.wasm")
	for _, name := range []string{"ed", "ec"} {
		key, err := library.ParseKey(name, file(name+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		if !key.Verify(guest(1), file(name+".sig")) {
			t.Errorf("%s: the signature of openssl is refused: %s", name, base64.StdEncoding.EncodeToString(file(name+".sig")))
		}
	}
}

func FuzzParseKey(f *testing.F) {
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nAQ==\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := library.ParseKey("k", text)
		if err == nil && key.Verify([]byte("text"), []byte("no signature")) {
			t.Error("anything is signed")
		}
	})
}
