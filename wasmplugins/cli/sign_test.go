package cli_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

func TestSignAndVerify(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	block := func(kind string, der []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	good, other := write("good.wasm", Fixed("{}")), write("other.wasm", Fixed("{ }"))
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	marshal := func(kind string, key any) []byte {
		t.Helper()
		var der []byte
		var err error
		switch kind {
		case "PUBLIC KEY":
			der, err = x509.MarshalPKIXPublicKey(key)
		case "PRIVATE KEY":
			der, err = x509.MarshalPKCS8PrivateKey(key)
		default:
			der, err = x509.MarshalECPrivateKey(ec)
		}
		return block(kind, der, err)
	}
	parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 1, 0}})
	for name, keys := range map[string][2][]byte{
		"ed":   {marshal("PRIVATE KEY", private), marshal("PUBLIC KEY", public)},
		"ec":   {marshal("PRIVATE KEY", ec), marshal("PUBLIC KEY", ec.Public())},
		"sec1": {append(parameters, marshal("EC PRIVATE KEY", nil)...), marshal("PUBLIC KEY", ec.Public())},
	} {
		key, pub := write(name+".pem", keys[0]), write(name+".pub", keys[1])
		signature, err := run(t, "sign", good, "--key", key)
		if err != nil {
			t.Fatalf("%s: %s %v", name, signature, err)
		}
		file := write(name+".sig", []byte(signature))
		for _, s := range []string{strings.TrimSpace(signature), "@" + file} {
			if out, err := run(t, "verify", good, "--key", pub, "--signature", s); err != nil || !strings.Contains(out, "sha256:") {
				t.Errorf("%s: %s %v", name, out, err)
			}
		}
		if _, err := run(t, "verify", other, "--key", pub, "--signature", "@"+file); err == nil || !strings.Contains(err.Error(), "not by the key") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := run(t, "verify", good, "--key", pub, "--signature", "no base64"); err == nil || !strings.Contains(err.Error(), "base64") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := run(t, "sign", good, "--key", pub); err == nil || !strings.Contains(err.Error(), "no private key") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := run(t, "verify", good, "--key", key, "--signature", "AA=="); err == nil || !strings.Contains(err.Error(), "PUBLIC KEY") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
