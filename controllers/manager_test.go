package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/controllers"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
)

func TestNewManager(t *testing.T) {
	c := newCluster(t)
	f := informers.NewFactory(informers.Config{REST: c.rest})
	for _, tc := range []struct {
		names []string
		err   error
	}{
		{nil, nil},
		{[]string{"*"}, nil},
		{[]string{"*", "-namespace"}, nil},
		{[]string{"deployment", "replicaset"}, nil},
		{[]string{"nothing"}, controllers.ErrUnknownLoop},
		{[]string{"-nothing"}, controllers.ErrUnknownLoop},
	} {
		if _, err := controllers.NewManager(controllers.Config{REST: c.rest, Factory: f, Names: tc.names}); !errors.Is(err, tc.err) {
			t.Errorf("%v: %v", tc.names, err)
		}
	}
	if _, err := controllers.NewManager(controllers.Config{REST: c.rest, Factory: f, LeaderElect: true}); !errors.Is(err, controllers.ErrNoIdentity) {
		t.Errorf("without identity: %v", err)
	}
}

// TestConvergesAfterKills stops the manager at random moments in the middle of
// rollouts and starts another one: the end is the same.
func TestConvergesAfterKills(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.agents("n1")
	c.create(deployment("web", 20, "v0"))
	stop := c.manage()
	for i := range 12 {
		image := fmt.Sprintf("v%d", i)
		n := int32(15 + rand.IntN(10))
		c.change("web", func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image = image
			d.Spec.Replicas = &n
		})
		<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond)
		stop()
		stop = c.manage()
	}
	n := int32(20)
	c.change("web", func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "last"
		d.Spec.Replicas = &n
	})
	c.rolledOut("web", 20, "last")
	stop()
}

// TestConvergesThroughFaults fails some of the calls of the loops, before or
// after they have had their effect.
func TestConvergesThroughFaults(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.agents("n1")
	var on atomic.Bool
	on.Store(true)
	flaky := c.server.Through(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if on.Load() {
				switch rand.IntN(12) {
				case 0:
					http.Error(w, "no", http.StatusInternalServerError)
					return
				case 1:
					panic(http.ErrAbortHandler)
				case 2:
					if r.URL.Query().Get("watch") == "" {
						h.ServeHTTP(w, r)
						panic(http.ErrAbortHandler) // done, and nobody is told
					}
				}
			}
			h.ServeHTTP(w, r)
		})
	})
	through := func(cfg *controllers.Config) {
		cfg.REST = flaky
	}
	c.manage(through)
	c.create(deployment("web", 12, "v1"))
	for i := range 4 {
		image := fmt.Sprintf("v%d", i)
		c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
		<-time.After(200 * time.Millisecond)
	}
	on.Store(false)
	c.change("web", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "last" })
	c.rolledOut("web", 12, "last")
}

// TestOneLeader runs several managers that fail over to each other; only the
// holder of the lease acts.
func TestOneLeader(t *testing.T) {
	c := newCluster(t)
	c.node("n1")
	c.agents("n1")
	start := func(id string, rest *client.REST) func() {
		return c.manage(func(cfg *controllers.Config) {
			cfg.Identity, cfg.LeaderElect, cfg.REST = id, true, rest
			cfg.LeaseDuration, cfg.RenewDeadline, cfg.RetryPeriod = time.Second, 600*time.Millisecond, 50*time.Millisecond
		})
	}
	leases := client.For[*coordinationv1.Lease](c.rest)
	holder := func() string {
		l, err := leases.Get(t.Context(), "kube-system", "proa-controllers")
		if err != nil || l.Spec.HolderIdentity == nil {
			return ""
		}
		return *l.Spec.HolderIdentity
	}
	holds := func(id string) {
		t.Helper()
		c.eventually(10*time.Second, func() error {
			if h := holder(); h != id {
				return fmt.Errorf("holder is %q, want %q", h, id)
			}
			return nil
		})
	}
	// The first one loses its connection after a while.
	var cut atomic.Bool
	broken := c.server.Through(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if cut.Load() {
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, r)
		})
	})
	start("first", broken)
	holds("first")
	stopSecond := start("second", c.rest)
	c.create(deployment("a", 2, "v1"))
	c.rolledOut("a", 2, "v1")
	holds("first")
	cut.Store(true)
	holds("second")
	c.create(deployment("b", 2, "v1"))
	c.rolledOut("b", 2, "v1")
	cut.Store(false)
	holds("second")
	// A leader that stops gives the lease back.
	begin := time.Now()
	stopSecond()
	holds("first")
	if d := time.Since(begin); d > 900*time.Millisecond {
		t.Errorf("took over after %v though the lease was given back", d)
	}
	c.create(deployment("d", 2, "v1"))
	c.rolledOut("d", 2, "v1")
	l, err := leases.Get(t.Context(), "kube-system", "proa-controllers")
	if err != nil || l.Spec.LeaseTransitions == nil || *l.Spec.LeaseTransitions < 2 {
		t.Errorf("lease %+v, %v", l, err)
	}
}

// BenchmarkDeployment is the time from the creation of a Deployment of 1,000
// replicas until all its pods exist.
func BenchmarkDeployment(b *testing.B) {
	c := newCluster(b)
	c.manage()
	c.eventually(10*time.Second, func() error {
		_, err := client.For[*corev1.ServiceAccount](c.rest).Get(b.Context(), "default", "default")
		return err
	})
	pods := informers.New(informers.Options[*corev1.Pod]{Client: c.pods})
	background(b, func(ctx context.Context) error { return pods.Run(ctx) })
	if err := pods.WaitForSync(b.Context()); err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		i++
		want := pods.Len() + 1000
		c.create(deployment(fmt.Sprintf("web-%d", i), 1000, "v1"))
		c.eventually(60*time.Second, func() error {
			if n := pods.Len(); n != want {
				return fmt.Errorf("%d pods", n)
			}
			return nil
		})
	}
}
