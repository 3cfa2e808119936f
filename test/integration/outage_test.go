package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/proa-project/proa/test/cluster"
)

const configMaps = "/api/v1/namespaces/default/configmaps"

func configMapJSON(name, data string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"d":%q}}`, name, data)
}

// refusedForNow checks the answer to what storage cannot do at the moment.
func refusedForNow(t *testing.T, what string, a answer) {
	t.Helper()
	if a.code != http.StatusServiceUnavailable || a.status.Reason != metav1.StatusReasonServiceUnavailable ||
		!strings.Contains(a.status.Message, "storage unavailable") {
		t.Errorf("%s: %d %.300s", what, a.code, a.body)
	}
	if a.took > 10*time.Second {
		t.Errorf("%s: took %v", what, a.took)
	}
}

// TestOutage stops the etcd elsewhere while the server runs, and starts it
// again. Nobody does anything to the server.
func TestOutage(t *testing.T) {
	t.Parallel()
	m := newMember(t, 0)
	c := cluster.Start(t, cluster.Config{Etcd: m.etcd(), SimulateNodes: 3})
	ctx, cancel := context.WithCancel(bounded(t, 110*time.Second))
	cs := clients(t, c)
	raw := newRawClient(t, adminConfig(t, c.Kubeconfig))
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, deployment("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if a := raw.do(t, "POST", configMaps, "application/json", configMapJSON("before", "x")); a.code != 201 {
		t.Fatalf("create: %+v", a)
	}
	factory := informers.NewSharedInformerFactory(cs, 0)
	pods, cms := factory.Core().V1().Pods().Informer(), factory.Core().V1().ConfigMaps().Informer()
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.WaitForCacheSync(ctx.Done())
	waitComplete(t, cs, "web", 40*time.Second)

	m.stop()
	refusedForNow(t, "create", raw.do(t, "POST", configMaps, "application/json", configMapJSON("during", "x")))
	refusedForNow(t, "patch", raw.do(t, "PATCH", configMaps+"/before", "application/merge-patch+json", `{"data":{"d":"y"}}`))
	refusedForNow(t, "delete", raw.do(t, "DELETE", configMaps+"/before", "", ""))
	refusedForNow(t, "read of the latest", raw.do(t, "GET", configMaps, "", ""))
	for _, path := range []string{
		configMaps + "?resourceVersion=0", configMaps + "/before?resourceVersion=0",
		"/api/v1/pods?resourceVersion=0", "/apis/apps/v1/deployments?resourceVersion=0", "/livez", "/version",
	} {
		if a := raw.do(t, "GET", path, "", ""); a.code != 200 || a.took > 5*time.Second {
			t.Errorf("GET %s without etcd: %d after %v: %.300s", path, a.code, a.took, a.body)
		}
	}

	m.start(t)
	cluster.Eventually(t, 30*time.Second, "writes are taken again", func(context.Context) bool {
		a := raw.do(t, "POST", configMaps, "application/json", configMapJSON("after", "x"))
		return a.code == http.StatusCreated || a.code == http.StatusConflict
	})
	cluster.Eventually(t, 30*time.Second, "the server is ready again", func(context.Context) bool {
		return raw.do(t, "GET", "/readyz", "", "").code == http.StatusOK
	})
	if _, err := cs.AppsV1().Deployments("default").Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitComplete(t, cs, "web", 60*time.Second)
	cluster.Eventually(t, 20*time.Second, "the informers have what the server has", func(ctx context.Context) bool {
		return same(ctx, cs, pods, cms)
	})
}

// TestFull fills the quota of the etcd elsewhere, and makes space again.
func TestFull(t *testing.T) {
	t.Parallel()
	m := newMember(t, 8<<20)
	c := cluster.Start(t, cluster.Config{Etcd: m.etcd()})
	raw := newRawClient(t, adminConfig(t, c.Kubeconfig))
	big := strings.Repeat("x", 900<<10)
	var last answer
	written := 0
	for ; written < 30; written++ {
		last = raw.do(t, "POST", configMaps, "application/json", configMapJSON(fmt.Sprint("big-", written), big))
		if last.code != http.StatusCreated {
			break
		}
	}
	refusedForNow(t, "create in a full database", last)
	if !strings.Contains(last.status.Message, "quota") {
		t.Errorf("the message does not say what is full: %s", last.status.Message)
	}
	if a := raw.do(t, "GET", configMaps+"?resourceVersion=0&limit=1", "", ""); a.code != 200 {
		t.Errorf("list from a full database: %d %.300s", a.code, a.body)
	}
	if a := raw.do(t, "GET", configMaps+"/big-0", "", ""); a.code != 200 {
		t.Errorf("get from a full database: %d %.300s", a.code, a.body)
	}
	for i := range written {
		if a := raw.do(t, "DELETE", fmt.Sprintf("%s/big-%d", configMaps, i), "", ""); a.code != 200 {
			t.Errorf("delete from a full database: %d %.300s", a.code, a.body)
		}
	}

	// What whoever runs that etcd does.
	ctx := bounded(t, 30*time.Second)
	operator, err := clientv3.New(clientv3.Config{Endpoints: []string{m.url.String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	got, err := operator.Get(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Compact(ctx, got.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Defragment(ctx, m.url.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 20*time.Second, "writes are taken again", func(context.Context) bool {
		return raw.do(t, "POST", configMaps, "application/json", configMapJSON("after", "x")).code == http.StatusCreated
	})
}

// TestTooLargeForEtcd writes what the server takes and an etcd elsewhere does
// not, with its own limit and with that of its transport.
func TestTooLargeForEtcd(t *testing.T) {
	t.Parallel()
	m := newMember(t, 0)
	c := cluster.Start(t, cluster.Config{Etcd: m.etcd()})
	raw := newRawClient(t, adminConfig(t, c.Kubeconfig))
	for _, size := range []int{1800 << 10, 2800 << 10} {
		// An environment has no limit of its own.
		var env strings.Builder
		for i := 0; env.Len() < size; i++ {
			fmt.Fprintf(&env, `{"name":"N%d","value":%q},`, i, strings.Repeat("v", 10000))
		}
		body := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"large"},"spec":{"containers":[{"name":"a","image":"a","env":[` +
			strings.TrimSuffix(env.String(), ",") + `]}]}}`
		a := raw.do(t, "POST", "/api/v1/namespaces/default/pods", "application/json", body)
		if a.code != http.StatusRequestEntityTooLarge || a.status.Reason != metav1.StatusReasonRequestEntityTooLarge {
			t.Errorf("%d bytes: %d %.300s", size, a.code, a.body)
		}
	}
}
