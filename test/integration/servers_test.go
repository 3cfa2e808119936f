package integration_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/proa-project/proa/test/cluster"
)

// leases are those by which servers agree who works.
func leases() []string { return []string{"proa-controllers", "proa-scheduler"} }

// holders returns who holds the leases; "" for one that nobody holds.
func holders(ctx context.Context, cs kubernetes.Interface) map[string]string {
	out := map[string]string{}
	for _, name := range leases() {
		l, err := cs.CoordinationV1().Leases("kube-system").Get(ctx, name, metav1.GetOptions{})
		if err == nil && l.Spec.HolderIdentity != nil {
			out[name] = *l.Spec.HolderIdentity
		}
	}
	return out
}

// waitHolders waits until both leases are held by somebody who is not in old.
func waitHolders(t *testing.T, cs kubernetes.Interface, old map[string]string) map[string]string {
	t.Helper()
	var now map[string]string
	cluster.Eventually(t, 40*time.Second, "the leases have new holders", func(ctx context.Context) bool {
		now = holders(ctx, cs)
		for _, name := range leases() {
			if now[name] == "" || now[name] == old[name] {
				return false
			}
		}
		return true
	})
	return now
}

// TestTwoServers runs two servers on one etcd: what one writes the other
// shows, controllers and scheduler run in one of them, and the other takes
// over, whether the first is killed or leaves.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	m := newMember(t, 0)
	a := newServer(t, t.TempDir(), "--etcd-endpoints", m.url.String())
	b := newServer(t, t.TempDir(), "--etcd-endpoints", m.url.String(), "--simulate-nodes", "3")
	a.start(t)
	onA := a.clients(t)
	first := waitHolders(t, onA, nil)
	if err := os.CopyFS(filepath.Join(b.dir, "pki"), os.DirFS(filepath.Join(a.dir, "pki"))); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	onB := b.clients(t)
	ctx := bounded(t, 110*time.Second)

	// Either's credentials are good for the other.
	config := adminConfig(t, a.kubeconfig())
	config.Host = "https://" + b.listen
	list, err := protobufClients(t, config).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := onB.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, name := range []string{"one", "two", "three"} {
		made, err := onA.CoreV1().ConfigMaps("default").Create(ctx, configMap(name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// A read of the latest is one on any server.
		if got, err := onB.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{}); err != nil || got.UID != made.UID {
			t.Errorf("get %q from the other server: %v, %v", name, got, err)
		}
		if e, ok := (<-w.ResultChan()).Object.(*corev1.ConfigMap); !ok || e.Name != name || e.ResourceVersion != made.ResourceVersion {
			t.Errorf("event %+v; want %q of revision %s", e, name, made.ResourceVersion)
		}
	}
	if _, err := onB.AppsV1().Deployments("default").Create(ctx, deployment("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitComplete(t, onB, "web", 30*time.Second)
	now := holders(ctx, onB)
	for _, name := range leases() {
		if now[name] != first[name] {
			t.Errorf("%s went from %q to %q though its holder lives", name, first[name], now[name])
		}
	}

	scale := func(cs kubernetes.Interface, patch string) {
		t.Helper()
		if _, err := cs.AppsV1().Deployments("default").Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		waitComplete(t, cs, "web", 40*time.Second)
	}
	a.end(syscall.SIGKILL)
	begin := time.Now()
	second := waitHolders(t, onB, first)
	t.Logf("taken over %v after the first was killed", time.Since(begin).Round(time.Millisecond))
	scale(onB, `{"spec":{"replicas":5}}`)

	// The other way round, and the server leaves in peace.
	a.args = append(a.args, "--simulate-nodes", "3")
	a.start(t)
	b.end(syscall.SIGTERM)
	begin = time.Now()
	waitHolders(t, onA, second)
	took := time.Since(begin)
	t.Logf("taken over %v after the second left", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Error("a server that leaves does not give its leases back")
	}
	scale(onA, `{"spec":{"replicas":2}}`)
}
