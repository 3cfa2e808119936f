package scheduling

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/httpapi/client"
)

// TestScheduler_hammer has pods and nodes come, change and go, bindings fail
// before and after the API has done them, and the scheduler be killed and
// started anew. At no time does a node have more than it can take, and in the
// end every pod is bound that can be.
func TestScheduler_hammer(t *testing.T) {
	transport := startAPI(t)
	rest := newREST(t, transport)
	pods, nodes := client.For[*corev1.Pod](rest), client.For[*corev1.Node](rest)
	ctx := t.Context()
	const nodeCount = 8
	for i := range nodeCount {
		create(t, rest, testNode(fmt.Sprintf("n%d", i), "4", "6"))
	}
	var round atomic.Int32
	f := &faulty{RoundTripper: transport}
	f.bind = func(next func() (*http.Response, error)) (*http.Response, error) {
		switch n := round.Add(1); {
		case n%7 == 0:
			return nil, errors.New("lost before")
		case n%11 == 0:
			if resp, err := next(); err == nil {
				resp.Body.Close()
			}
			return nil, errors.New("lost after")
		}
		return next()
	}

	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { watchCapacity(t, rest, done) })
	quiet := make(chan struct{}) // closed when the clients are to stop
	var clients sync.WaitGroup
	const owners = 4
	for o := range owners {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(o), 1))
			var mine []string
			for i := range ticks(quiet) {
				if len(mine) > 6 || len(mine) > 0 && r.IntN(3) == 0 {
					name := mine[0]
					mine = mine[1:]
					grace := int64(0)
					if err := pods.Delete(ctx, "default", name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
						t.Error(err)
					}
					continue
				}
				p := testPod(fmt.Sprintf("p%d-%d", o, i), fmt.Sprintf("%dm", 250*(1+r.IntN(6))))
				if r.IntN(4) == 0 {
					p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8000 + r.Int32N(2)}}
				}
				if _, err := pods.Create(ctx, p); err != nil {
					t.Error(err)
				}
				mine = append(mine, p.Name)
			}
		})
	}
	clients.Go(func() {
		r := rand.New(rand.NewPCG(9, 9))
		for i := range ticks(quiet) {
			name := fmt.Sprintf("n%d", r.IntN(nodeCount))
			var err error
			switch r.IntN(3) {
			case 0: // it goes and comes back; its pods stay
				if err = nodes.Delete(ctx, "", name, metav1.DeleteOptions{}); err == nil {
					_, err = nodes.Create(ctx, testNode(name, "4", "6"))
				}
			case 1:
				_, err = nodes.Patch(ctx, "", name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, i%2 == 0))
			case 2:
				_, err = nodes.Patch(ctx, "", name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, i))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	for range 6 {
		s := startScheduler(t, f, Config{Queue: fast, Workers: 8})
		from := round.Load()
		eventually(t, "some bindings were tried", 30*time.Second, func() bool { return round.Load() > from+40 || t.Failed() })
		s.stop()
	}
	close(quiet)
	clients.Wait()
	startScheduler(t, f, Config{Queue: fast, Workers: 8})
	for i := range nodeCount {
		if _, err := nodes.Patch(ctx, "", fmt.Sprintf("n%d", i), types.MergePatchType, []byte(`{"spec":{"unschedulable":false}}`)); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	eventually(t, "no pod waits that fits a node", 30*time.Second, func() bool { return settled(t, pods) && waitsForNothing(t, rest) })
	close(done)
	wg.Wait()
}

// ticks counts with a little time between, until the channel is closed.
func ticks(until <-chan struct{}) iter.Seq[int] {
	return func(yield func(int) bool) {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-until:
				return
			case <-tick.C:
				if !yield(i) {
					return
				}
			}
		}
	}
}

// settled reports whether every pod is bound or says why not.
func settled(t *testing.T, pods *client.Client[*corev1.Pod]) bool {
	t.Helper()
	list, err := pods.List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return true
	}
	for _, p := range list.Items {
		if p.Spec.NodeName == "" && scheduledCondition(p) == "" {
			return false
		}
	}
	return len(list.Items) > 0
}

type load struct {
	cpu, pods int64
	ports     map[int32]int
}

func loads(list []*corev1.Pod) map[string]*load {
	m := map[string]*load{}
	for _, p := range list {
		if p.Spec.NodeName == "" {
			continue
		}
		l := m[p.Spec.NodeName]
		if l == nil {
			l = &load{ports: map[int32]int{}}
			m[p.Spec.NodeName] = l
		}
		l.pods++
		l.cpu += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		for _, port := range p.Spec.Containers[0].Ports {
			l.ports[port.HostPort]++
		}
	}
	return m
}

// watchCapacity looks at one consistent list after the other.
func watchCapacity(t *testing.T, rest *client.REST, done <-chan struct{}) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		list, err := client.For[*corev1.Pod](rest).List(context.Background(), "", metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		for name, l := range loads(list.Items) {
			if l.cpu > 4000 || l.pods > 6 {
				t.Errorf("node %q has %d pods with %dm", name, l.pods, l.cpu)
				return
			}
			for port, n := range l.ports {
				if n > 1 {
					t.Errorf("node %q has port %d taken %d times", name, port, n)
					return
				}
			}
		}
	}
}

// waitsForNothing reports whether no node has room for a pod that waits.
func waitsForNothing(t *testing.T, rest *client.REST) bool {
	t.Helper()
	list, err := client.For[*corev1.Pod](rest).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return true
	}
	nodes, err := client.For[*corev1.Node](rest).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return true
	}
	on := loads(list.Items)
	limit := resource.MustParse("4")
	for _, p := range list.Items {
		if p.Spec.NodeName != "" {
			continue
		}
		for _, n := range nodes.Items {
			l := on[n.Name]
			if l == nil {
				l = &load{}
			}
			fits := !n.Spec.Unschedulable && l.pods < 6 && l.cpu+p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() <= limit.MilliValue()
			for _, port := range p.Spec.Containers[0].Ports {
				fits = fits && l.ports[port.HostPort] == 0
			}
			if fits {
				return false
			}
		}
	}
	return true
}
