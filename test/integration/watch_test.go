package integration_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/proa-project/proa/test/cluster"
)

// A proxy passes TCP connections on until they are cut.
type proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close() // it ends accept
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target) // loopback
		if err != nil || !p.keep(in, out) {
			in.Close() // refused
			if out != nil {
				out.Close() // refused
			}
			continue
		}
		pass := func(to, from net.Conn) {
			io.Copy(to, from) // it ends when either is cut
			to.Close()        // and so does the other
			from.Close()      // and this
		}
		p.wg.Go(func() { pass(in, out) })
		p.wg.Go(func() { pass(out, in) })
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.down
}

// cut ends all connections, and lets no new ones in until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		c.Close() // cut
	}
	clear(p.conns)
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// change does 100 changes of all kinds and returns the events that they are.
func change(ctx context.Context, t *testing.T, cs kubernetes.Interface, round int) []string {
	t.Helper()
	cms := cs.CoreV1().ConfigMaps("default")
	var out []string
	note := func(kind watch.EventType, cm *corev1.ConfigMap, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, eventOf(kind, cm))
	}
	for i := range 40 {
		cm, err := cms.Create(ctx, configMap(fmt.Sprintf("cut-%d-%02d", round, i)), metav1.CreateOptions{})
		note(watch.Added, cm, err)
		cm.Data["changed"] = "yes"
		cm, err = cms.Update(ctx, cm, metav1.UpdateOptions{})
		note(watch.Modified, cm, err)
		if i%2 == 0 {
			err := cms.Delete(ctx, cm.Name, metav1.DeleteOptions{})
			note(watch.Deleted, cm, err)
		}
	}
	return out
}

// eventOf says what an event is. That of a deletion has a revision that no
// answer says.
func eventOf(kind watch.EventType, cm *corev1.ConfigMap) string {
	if kind == watch.Deleted {
		return fmt.Sprintf("%s %s", kind, cm.Name)
	}
	return fmt.Sprintf("%s %s %s", kind, cm.Name, cm.ResourceVersion)
}

// read takes n events of ConfigMaps from a channel, and the last revision.
func read(ctx context.Context, t *testing.T, events <-chan watch.Event, n int) (out []string, revision string) {
	t.Helper()
	for len(out) < n {
		select {
		case e, ok := <-events:
			cm, isMap := e.Object.(*corev1.ConfigMap)
			if !ok || !isMap {
				t.Fatalf("after %d of %d events: open %v, %s %v", len(out), n, ok, e.Type, e.Object)
			}
			revision = cm.ResourceVersion
			if e.Type != watch.Bookmark {
				out = append(out, eventOf(e.Type, cm))
			}
		case <-ctx.Done():
			t.Fatalf("only %d of %d events came", len(out), n)
		}
	}
	return out, revision
}

// TestCutConnection cuts the connection of watchers and changes things
// meanwhile: they get exactly what they have missed, in order.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Config{})
	config := adminConfig(t, c.Kubeconfig)
	direct := protobufClients(t, config)
	p := newProxy(t, config.Host[len("https://"):])
	config.Host = "https://" + p.listener.Addr().String()
	far := protobufClients(t, config)
	ctx := bounded(t, 60*time.Second)

	begin, err := direct.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	opts := metav1.ListOptions{ResourceVersion: begin.ResourceVersion, FieldSelector: "metadata.name!=kube-root-ca.crt"}
	w, err := far.CoreV1().ConfigMaps("default").Watch(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	retrying, err := watchtools.NewRetryWatcherWithContext(ctx, begin.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = opts.FieldSelector
			return far.CoreV1().ConfigMaps("default").Watch(ctx, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { retrying.Stop(); <-retrying.Done() }()

	want := change(ctx, t, direct, 0)
	got, revision := read(ctx, t, w.ResultChan(), len(want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	got, _ = read(ctx, t, retrying.ResultChan(), len(want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events of the retrying watcher (-want +got):\n%s", diff)
	}

	p.cut()
	for range w.ResultChan() { //nolint:revive // until it notices
	}
	missed := change(ctx, t, direct, 1)
	p.mend()
	opts.ResourceVersion = revision
	w, err = far.CoreV1().ConfigMaps("default").Watch(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	later := change(ctx, t, direct, 2)
	missed = append(missed, later...)
	if got, _ = read(ctx, t, w.ResultChan(), len(missed)); !cmp.Equal(missed, got) {
		t.Errorf("events after the cut (-want +got):\n%s", cmp.Diff(missed, got))
	}
	if got, _ = read(ctx, t, retrying.ResultChan(), len(missed)); !cmp.Equal(missed, got) {
		t.Errorf("events of the retrying watcher after the cut (-want +got):\n%s", cmp.Diff(missed, got))
	}
}
