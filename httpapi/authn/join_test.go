package authn_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/pki"
	"github.com/proa-project/proa/httpapi/request"
)

// signingRequest returns a signing request as PEM.
func signingRequest(t *testing.T, tmpl *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestJoin(t *testing.T) {
	a := authority(t)
	subject := pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}
	client := signingRequest(t, &x509.CertificateRequest{Subject: subject})
	serving := signingRequest(t, &x509.CertificateRequest{Subject: subject, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}})
	body := func(node string, c, s []byte) string {
		b, err := json.Marshal(authn.JoinRequest{NodeName: node, CSR: string(c), ServingCSR: string(s)})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	joiner := &request.User{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers"}}
	for _, tt := range []struct {
		name, method, contentType, body string
		user                            *request.User
		code                            int
	}{
		{"joins", "POST", "application/json", body("n1", client, serving), joiner, 200},
		{"renews", "POST", "", body("n1", client, serving), &request.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}, 200},
		{"another node", "POST", "", body("n1", client, serving), &request.User{Name: "system:node:n2", Groups: []string{"system:nodes"}}, 403},
		{"nobody", "POST", "", body("n1", client, serving), nil, 401},
		{"GET", "GET", "", "", joiner, 405},
		{"YAML", "POST", "application/yaml", "a: b", joiner, 415},
		{"not JSON", "POST", "", "{", joiner, 400},
		{"wrong type", "POST", "", `{"nodeName":1}`, joiner, 400},
		{"no CSR", "POST", "", `{"nodeName":"n1"}`, joiner, 400},
		{"wrong name", "POST", "", body("n2", client, serving), joiner, 400},
		{"too large", "POST", "", body("n1", bytes.Repeat([]byte("x"), 64<<10), nil), joiner, 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), tt.method, authn.JoinPath, strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.contentType)
			r = r.WithContext(request.With(r.Context(), &request.State{User: tt.user}))
			w := httptest.NewRecorder()
			authn.JoinHandler(a).ServeHTTP(w, r)
			if w.Code != tt.code {
				t.Fatalf("code is %d, want %d: %s", w.Code, tt.code, w.Body)
			}
			if tt.code != 200 {
				var s metav1.Status
				if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.Kind != "Status" || int(s.Code) != tt.code || s.Reason == "" {
					t.Errorf("no Status: %s", w.Body)
				}
				return
			}
			var j authn.JoinResponse
			if err := json.Unmarshal(w.Body.Bytes(), &j); err != nil {
				t.Fatal(err)
			}
			ca, err := pki.ParseCertificate([]byte(j.CA))
			if err != nil || pki.Hash(ca) != a.Hash() {
				t.Errorf("ca is not the cluster's: %v", err)
			}
			for _, p := range []string{j.Certificate, j.ServingCertificate} {
				if _, err := pki.ParseCertificate([]byte(p)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w := httptest.NewRecorder()
	authn.CACertsHandler(a).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, authn.CACertsPath, nil))
	if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), a.PEM()) {
		t.Errorf("/cacerts: %d %s", w.Code, w.Body)
	}
}
