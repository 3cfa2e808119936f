package integration_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/pki"
	"github.com/proa-project/proa/nodeagent/join"
	"github.com/proa-project/proa/test/cluster"
)

// joined joins a node as an agent does, and returns a client with what it got.
func joined(ctx context.Context, t *testing.T, c *cluster.Cluster, admin *rest.Config, name string) *kubernetes.Clientset {
	t.Helper()
	secret, token, err := authn.NewJoinSecret(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protobufClients(t, admin).CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, err = join.Node(ctx, join.Config{Server: c.URL, Token: token, CAHash: c.Authority.Hash(), NodeName: name, NodeIPs: []string{"127.0.0.1"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return protobufClients(t, &rest.Config{Host: c.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAData: c.Authority.PEM(), CertFile: filepath.Join(dir, "client.crt"), KeyFile: filepath.Join(dir, "client.key"),
	}})
}

func boundPod(name, node, secret string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: podTemplate(nil).Spec}
	p.Spec.NodeName = node
	p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}
	return p
}

// TestNodeIdentity tries with a joined node's credential what it may not.
func TestNodeIdentity(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	ctx := bounded(t, 60*time.Second)
	config := adminConfig(t, c.Kubeconfig)
	admin := protobufClients(t, config)
	one, two := joined(ctx, t, c, config, "one"), joined(ctx, t, c, config, "two")

	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	_, err := one.CoreV1().Nodes().Create(ctx, node("one"), metav1.CreateOptions{})
	must("a node registers", err)
	_, err = two.CoreV1().Nodes().Create(ctx, node("two"), metav1.CreateOptions{})
	must("a node registers", err)
	for _, name := range []string{"one", "two"} {
		_, err := admin.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-" + name}}, metav1.CreateOptions{})
		must("create a secret", err)
		cluster.Eventually(t, 10*time.Second, "pods can be made", func(ctx context.Context) bool {
			_, err = admin.CoreV1().Pods("default").Create(ctx, boundPod("on-"+name, name, "of-"+name), metav1.CreateOptions{})
			return err == nil
		})
	}
	_, err = one.CoreV1().Secrets("default").Get(ctx, "of-one", metav1.GetOptions{})
	must("read the secret of its pod", err)
	_, err = one.CoreV1().Pods("default").Get(ctx, "on-one", metav1.GetOptions{})
	must("read its pod", err)
	_, err = one.CoreV1().Nodes().Patch(ctx, "one", types.MergePatchType, []byte(`{"status":{"nodeInfo":{"osImage":"x"}}}`), metav1.PatchOptions{}, "status")
	must("write its status", err)

	patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	for what, try := range map[string]func() error{
		"read another's secret": func() error {
			_, err := one.CoreV1().Secrets("default").Get(ctx, "of-two", metav1.GetOptions{})
			return err
		},
		"list secrets": func() error {
			_, err := one.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			return err
		},
		"watch all secrets": func() error {
			_, err := one.CoreV1().Secrets("").Watch(ctx, metav1.ListOptions{})
			return err
		},
		"write its pod's secret": func() error {
			_, err := one.CoreV1().Secrets("default").Patch(ctx, "of-one", types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		},
		"change another node": func() error {
			_, err := one.CoreV1().Nodes().Patch(ctx, "two", types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		},
		"change another's status": func() error {
			_, err := one.CoreV1().Nodes().Patch(ctx, "two", types.MergePatchType, []byte(`{"status":{}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"delete another node": func() error { return one.CoreV1().Nodes().Delete(ctx, "two", metav1.DeleteOptions{}) },
		"register another node": func() error {
			_, err := one.CoreV1().Nodes().Create(ctx, node("three"), metav1.CreateOptions{})
			return err
		},
		"list all pods": func() error {
			_, err := one.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			return err
		},
		"list another's pods": func() error {
			_, err := one.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=two"})
			return err
		},
		"read another's pod": func() error {
			_, err := one.CoreV1().Pods("default").Get(ctx, "on-two", metav1.GetOptions{})
			return err
		},
		"delete another's pod": func() error {
			return one.CoreV1().Pods("default").Delete(ctx, "on-two", metav1.DeleteOptions{})
		},
		"write another's pod's status": func() error {
			_, err := one.CoreV1().Pods("default").Patch(ctx, "on-two", types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"create a pod for another": func() error {
			_, err := one.CoreV1().Pods("default").Create(ctx, boundPod("x", "two", "of-two"), metav1.CreateOptions{})
			return err
		},
		"create a pod with another's secret": func() error {
			_, err := one.CoreV1().Pods("default").Create(ctx, boundPod("y", "one", "of-two"), metav1.CreateOptions{})
			return err
		},
		"bind a pod": func() error {
			return one.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "on-two"}, Target: corev1.ObjectReference{Kind: "Node", Name: "one"},
			}, metav1.CreateOptions{})
		},
		"read the join tokens": func() error {
			_, err := one.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"make a deployment": func() error {
			_, err := one.AppsV1().Deployments("default").Create(ctx, deployment("d", 1), metav1.CreateOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("a node may %s: %v", what, err)
		}
	}
}

// leafOf returns a client certificate by an authority that is read from the
// folder of a server, or by one that signs itself.
func leafOf(t *testing.T, dir string, until time.Time) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		NotBefore: until.Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, k
	if dir != "" {
		parent, signer = readAuthority(t, dir)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &k.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// readAuthority reads the root of a server, as only its operator can.
func readAuthority(t *testing.T, dir string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	certPEM, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCertificate(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		t.Fatal("no key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key.(*ecdsa.PrivateKey) // it is one
}

// TestStrangers asks with no credential and with bad ones.
func TestStrangers(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	base := rest.Config{Host: c.URL, TLSClientConfig: rest.TLSClientConfig{CAData: c.Authority.PEM()}}

	// Only what is for everybody has somebody without a name at all.
	nobody := newRawClient(t, rest.CopyConfig(&base))
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/version": 200,
		"/api/v1/secrets": 401, "/api/v1/nodes": 401, "/api": 401, "/openapi/v3": 401, "/metrics": 401, "/": 401, "/nothing": 401,
	} {
		if a := nobody.do(t, "GET", path, "", ""); a.code != want {
			t.Errorf("GET %s as nobody: %d %.200s; want %d", path, a.code, a.body, want)
		}
	}
	if a := nobody.do(t, "POST", configMaps, "application/json", configMapJSON("x", "")); a.code != 401 || a.status.Reason != metav1.StatusReasonUnauthorized {
		t.Errorf("POST as nobody: %d %.200s", a.code, a.body)
	}

	with := func(cert, key []byte, token string) answer {
		config := rest.CopyConfig(&base)
		config.CertData, config.KeyData, config.BearerToken = cert, key, token
		return newRawClient(t, config).do(t, "GET", "/api/v1/namespaces", "", "")
	}
	pkiDir := filepath.Join(c.DataDir, "pki")
	cert, key := leafOf(t, pkiDir, time.Now().Add(time.Hour))
	if a := with(cert, key, ""); a.code != 200 {
		t.Errorf("a good certificate: %d %.200s", a.code, a.body)
	}
	for what, credential := range map[string]func() answer{
		"an expired certificate": func() answer {
			cert, key := leafOf(t, pkiDir, time.Now().Add(-time.Minute))
			return with(cert, key, "")
		},
		"a foreign certificate": func() answer { cert, key := leafOf(t, "", time.Now().Add(time.Hour)); return with(cert, key, "") },
		"a future certificate": func() answer {
			cert, key := leafOf(t, pkiDir, time.Now().Add(48*time.Hour))
			return with(cert, key, "")
		},
		"a bad token":           func() answer { return with(nil, nil, "nonsense") },
		"a bad join token":      func() answer { return with(nil, nil, "abcdef.0123456789abcdef") },
		"a token of no account": func() answer { return with(nil, nil, "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.") },
	} {
		if a := credential(); a.code != 401 || a.status.Reason != metav1.StatusReasonUnauthorized {
			t.Errorf("%s: %d %.200s; want 401", what, a.code, a.body)
		}
	}
}
