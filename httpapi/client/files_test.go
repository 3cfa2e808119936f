package client_test

import (
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"testing"
)

func pemOf(h *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
