package informers_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kuberest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/informers"
	"github.com/proa-project/proa/test/apiserver"
)

// A vandal stands between a client and the server.
type vandal struct {
	h  http.Handler
	mu sync.Mutex
	r  *rand.Rand // guarded by mu; nil is peace
}

func (v *vandal) roll(n int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.r != nil && v.r.IntN(n) == 0
}

func (v *vandal) peace() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.r = nil
}

func (v *vandal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case v.roll(8):
		w.WriteHeader(http.StatusInternalServerError)
	case v.roll(8):
		panic(http.ErrAbortHandler)
	case r.URL.Query().Get("watch") != "" && v.roll(6):
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`+"\n")
	case r.URL.Query().Get("watch") != "":
		v.h.ServeHTTP(&cutter{ResponseWriter: w, v: v}, r)
	default:
		v.h.ServeHTTP(w, r)
	}
}

// A cutter ends a stream in the middle of a write.
type cutter struct {
	http.ResponseWriter
	v *vandal
}

func (c *cutter) Write(b []byte) (int, error) {
	if c.v.roll(15) {
		c.ResponseWriter.Write(b[:len(b)/2])
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b)
}

func (c *cutter) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// TestServer_chaos follows a real server through a bad connection, in process
// and over TLS and HTTP/2.
func TestServer_chaos(t *testing.T) {
	for _, wire := range []string{"in process", "TLS"} {
		t.Run(wire, func(t *testing.T) {
			s := apiserver.New(t)
			v := &vandal{h: s, r: rand.New(rand.NewPCG(7, uint64(len(wire))))}
			c, err := client.New(client.Config{Transport: client.InProcess(v)})
			if err != nil {
				t.Fatal(err)
			}
			if wire == "TLS" {
				c = listen(t, s, v)
			}
			f := informers.NewFactory(informers.Config{REST: c})
			i := informers.For[object](f)
			tw := newTwin(t)
			i.AddHandler(tw.handler())
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- f.Run(ctx) }()
			defer func() {
				cancel()
				<-done
			}()
			mutate(t, s.REST)
			v.peace()
			maps := client.For[object](s.REST)
			wait(t, func() error {
				l, err := maps.List(t.Context(), "", metav1.ListOptions{})
				if err != nil {
					return err
				}
				truth := map[informers.Key]object{}
				for _, o := range l.Items {
					truth[informers.KeyOf(o)] = o
				}
				if i.Len() != len(truth) {
					return fmt.Errorf("%d in the copy, want %d", i.Len(), len(truth))
				}
				return tw.differs(truth)
			})
			if informers.For[object](f) != i {
				t.Error("the factory made a second informer")
			}
		})
	}
}

func listen(t *testing.T, s *apiserver.Server, h http.Handler) *client.REST {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = nil
	srv.StartTLS()
	t.Cleanup(func() {
		s.Stop()
		srv.CloseClientConnections()
		srv.Close()
	})
	c, err := client.New(client.Config{URL: srv.URL, Transport: srv.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mutate makes a few hundred changes.
func mutate(t *testing.T, c *client.REST) {
	t.Helper()
	maps := client.For[object](c)
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 600 {
		name := fmt.Sprint("m-", r.IntN(25))
		var err error
		switch r.IntN(5) {
		case 0:
			err = maps.Delete(t.Context(), "default", name, metav1.DeleteOptions{})
		case 1:
			<-time.After(time.Duration(r.IntN(10)) * time.Millisecond)
		default:
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"n": fmt.Sprint(n)}}
			if _, err = maps.Update(t.Context(), obj); apierrors.IsNotFound(err) {
				_, err = maps.Create(t.Context(), obj)
			}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

func wait(t *testing.T, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

// TestStockInformers runs the informers of client-go against the server: they
// show what ours show.
func TestStockInformers(t *testing.T) {
	s := apiserver.New(t)
	_, h := s.Listen()
	kube, err := kubernetes.NewForConfig(&kuberest.Config{Host: h.URL, QPS: -1, TLSClientConfig: kuberest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	f := clientinformers.NewSharedInformerFactory(kube, 0)
	stock := f.Core().V1().ConfigMaps().Informer()
	stop := make(chan struct{})
	f.Start(stop)
	defer f.Shutdown()
	defer close(stop)
	ours := informers.New(informers.Options[object]{Client: client.For[object](s.REST)})
	end := start(t, ours)
	defer end()
	if !cache.WaitForCacheSync(stop, stock.HasSynced) {
		t.Fatal("not synced")
	}
	mutate(t, s.REST)
	wait(t, func() error {
		theirs := stock.GetStore().List()
		if len(theirs) != ours.Len() || len(theirs) == 0 {
			return fmt.Errorf("%d there, %d here", len(theirs), ours.Len())
		}
		for _, x := range theirs {
			their := x.(*corev1.ConfigMap) // it lists nothing else
			our, ok := ours.Get(their.Namespace, their.Name)
			if !ok || our.ResourceVersion != their.ResourceVersion || our.Data["n"] != their.Data["n"] {
				return fmt.Errorf("%s is at %s there, %v here", their.Name, their.ResourceVersion, our)
			}
		}
		return nil
	})
}

func BenchmarkList(b *testing.B) {
	s := apiserver.New(b)
	pods := client.For[*corev1.Pod](s.REST)
	for n := range 1000 {
		_, err := pods.Create(b.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p-", n), Labels: map[string]string{"a": "b"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("full", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if l, err := pods.List(b.Context(), "", metav1.ListOptions{}); err != nil || len(l.Items) != 1000 {
				b.Fatal(err)
			}
		}
	})
	b.Run("metadata", func(b *testing.B) {
		m := client.Metadata(s.REST, pods.Resource())
		b.ReportAllocs()
		for b.Loop() {
			if l, err := m.List(b.Context(), "", metav1.ListOptions{}); err != nil || len(l.Items) != 1000 {
				b.Fatal(err)
			}
		}
	})
}
