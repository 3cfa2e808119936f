package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/proa-project/proa/httpapi"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
	"github.com/proa-project/proa/storage/memory"
)

// benchPod is a pod of 2 KiB, as a Deployment makes it.
func benchPod(name string) []byte {
	var env strings.Builder
	for i := range 12 {
		fmt.Fprintf(&env, `,{"name":"VARIABLE_%d","value":"%s"}`, i, strings.Repeat("v", 40))
	}
	return []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default",`+
		`"labels":{"app":"bench","pod-template-hash":"abcdef","tier":"web"},"annotations":{"note":"%s"},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"bench-abcdef","uid":"u","controller":true,"blockOwnerDeletion":true}]},`+
		`"spec":{"containers":[{"name":"main","image":"registry.example/app:v1","command":["/bin/app"],"args":["--flag=value","--other"],`+
		`"ports":[{"containerPort":8080,"name":"http"}],"env":[{"name":"A","value":"b"}%s],`+
		`"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"1","memory":"256Mi"}},`+
		`"readinessProbe":{"httpGet":{"path":"/ready","port":8080}},`+
		`"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"cfg","mountPath":"/cfg"}]}],`+
		`"volumes":[{"name":"data","emptyDir":{}},{"name":"cfg","configMap":{"name":"cfg"}}]}}`, name, strings.Repeat("n", 100), env.String()))
}

// A bench is a server whose handler is called directly.
type bench struct {
	b     *testing.B
	api   *httpapi.Server
	store storage.Store
}

func newBench(b *testing.B, inner storage.Store) *bench {
	b.Helper()
	store := newCache(b, inner)
	b.Cleanup(func() { store.Close() })
	f := newFixtureOver(b, store, func(c *httpapi.Config) { c.Log = zerolog.Nop() })
	return &bench{b: b, api: f.api, store: store}
}

// sink is an answer that nobody reads.
type sink struct {
	header http.Header
	code   int
	n      int64
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(code int)        { s.code = code }
func (s *sink) Write(p []byte) (int, error) { s.n += int64(len(p)); return len(p), nil }
func (s *sink) Flush()                      {}

func (h *bench) do(method, path string, body []byte, want int, header ...string) int64 {
	req := httptest.NewRequestWithContext(h.b.Context(), method, path, bytes.NewReader(body))
	req.Header.Set("Authorization", "Bearer alice")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := &sink{header: http.Header{}}
	h.api.ServeHTTP(w, req)
	if w.code == 0 {
		w.code = http.StatusOK
	}
	if w.code != want {
		h.b.Fatalf("%s %s: %d", method, path, w.code)
	}
	return w.n
}

// onStores runs a benchmark on a store in memory and on an embedded etcd.
func onStores(b *testing.B, run func(*testing.B, storage.Store)) {
	b.Helper()
	b.Run("memory", func(b *testing.B) { run(b, memory.New(memory.Config{})) })
	b.Run("etcd", func(b *testing.B) {
		e, err := etcd.Start(b.Context(), etcd.Config{DataDir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		run(b, e)
	})
}

func BenchmarkCreatePod(b *testing.B) { onStores(b, benchCreate) }

func benchCreate(b *testing.B, inner storage.Store) {
	b.Helper()
	h := newBench(b, inner)
	bodies := make([][]byte, b.N)
	for i := range bodies {
		bodies[i] = benchPod(fmt.Sprint("p", i))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		h.do("POST", podsPath, bodies[i], http.StatusCreated)
	}
}

func BenchmarkGetPod(b *testing.B) {
	onStores(b, func(b *testing.B, inner storage.Store) { //nolint:thelper // it is the benchmark
		h := newBench(b, inner)
		h.do("POST", podsPath, benchPod("p"), http.StatusCreated)
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			h.do("GET", podsPath+"/p", nil, http.StatusOK)
		}
	})
}

func BenchmarkPatchPod(b *testing.B) {
	h := newBench(b, memory.New(memory.Config{}))
	h.do("POST", podsPath, benchPod("p"), http.StatusCreated)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i)
		h.do("PATCH", podsPath+"/p", []byte(patch), http.StatusOK, "Content-Type", "application/strategic-merge-patch+json")
	}
}

func BenchmarkUpdateStatus(b *testing.B) {
	h := newBench(b, memory.New(memory.Config{}))
	h.do("POST", podsPath, benchPod("p"), http.StatusCreated)
	bodies := [2][]byte{}
	for i := range bodies {
		bodies[i] = bytes.Replace(benchPod("p"), []byte(`"spec":`), []byte(fmt.Sprintf(`"status":{"phase":"Running","podIP":"10.0.0.%d"},"spec":`, i)), 1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		h.do("PUT", podsPath+"/p/status", bodies[i%2], http.StatusOK)
	}
}

func BenchmarkListPods(b *testing.B) {
	h := newBench(b, memory.New(memory.Config{}))
	const n = 10000
	for i := range n {
		h.do("POST", podsPath, benchPod(fmt.Sprint("p", i)), http.StatusCreated)
	}
	for name, accept := range map[string]string{"json": "application/json", "protobuf": protobuf, "table": tableType, "metadata": partialType} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var size int64
			for range b.N {
				size = h.do("GET", "/api/v1/pods?resourceVersion=0", nil, http.StatusOK, "Accept", accept)
			}
			b.SetBytes(size)
		})
	}
	b.Run("selected", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			h.do("GET", "/api/v1/pods?resourceVersion=0&labelSelector=app%3Dnone", nil, http.StatusOK)
		}
	})
}

// counter is the answer to a watch. It tells when it has seen so many events.
type counter struct {
	header http.Header
	mark   []byte // of one event
	left   int
	done   *sync.WaitGroup
	ready  *sync.WaitGroup
}

func (c *counter) Header() http.Header { return c.header }
func (c *counter) WriteHeader(int)     {}
func (c *counter) Flush() {
	if c.ready != nil {
		c.ready.Done()
		c.ready = nil
	}
}

func (c *counter) Write(p []byte) (int, error) {
	n := bytes.Count(p, c.mark)
	if c.left > 0 && c.left <= n {
		c.done.Done()
	}
	c.left -= n
	return len(p), nil
}

// BenchmarkFanOut has a thousand watchers see each change. The figure is per
// event that is delivered to a watcher.
func BenchmarkFanOut(b *testing.B) {
	for name, accept := range map[string]string{"json": "application/json", "protobuf": protobuf} {
		b.Run(name, func(b *testing.B) { fanOut(b, accept) })
	}
}

func fanOut(b *testing.B, accept string) {
	b.Helper()
	const watchers = 1000
	h := newBench(b, memory.New(memory.Config{}))
	h.do("POST", podsPath, benchPod("p"), http.StatusCreated)
	ctx, cancel := context.WithCancel(b.Context())
	var ended, done, ready sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	changes := max(b.N/watchers, 1)
	done.Add(watchers)
	ready.Add(watchers)
	for range watchers {
		ended.Go(func() {
			req := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/pods?watch=1&resourceVersion=0", nil)
			req.Header.Set("Authorization", "Bearer alice")
			req.Header.Set("Accept", accept)
			mark := []byte("\n")
			if accept == protobuf {
				mark = []byte("k8s\x00")
			}
			h.api.ServeHTTP(&counter{header: http.Header{}, mark: mark, left: changes + 1, done: &done, ready: &ready}, req)
		})
	}
	ready.Wait()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range changes {
		body := fmt.Sprintf(`{"status":{"podIP":"10.0.%d.%d"}}`, i/250%250, i%250+1)
		h.do("PATCH", podsPath+"/p/status", []byte(body), http.StatusOK, "Content-Type", mergePatch)
	}
	done.Wait()
	b.StopTimer()
	b.ReportMetric(float64(changes*watchers)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkWire is get and list over TLS and HTTP/2.
func BenchmarkWire(b *testing.B) {
	f := newFixture(b, func(c *httpapi.Config) { c.Log = zerolog.Nop() })
	for i := range 1000 {
		if r := f.do(b, "POST", podsPath, string(benchPod(fmt.Sprint("p", i)))); r.Code != http.StatusCreated {
			b.Fatal(r)
		}
	}
	for name, path := range map[string]string{"get": podsPath + "/p7", "list1000": podsPath + "?resourceVersion=0"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, f.URL+path, nil)
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer alice")
				resp, err := f.Client().Do(req)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
