package etcd_test

import (
	"errors"
	"net"
	"net/url"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
	"github.com/proa-project/proa/storage/storagetest"
	"github.com/proa-project/proa/storage/watchcache"
)

// member runs an etcd that listens on loopback, as one elsewhere would.
type member struct {
	dir       string
	url       url.URL
	configure func(*embed.Config)
	server    *embed.Etcd
}

func newMember(tb testing.TB, scheme string, configure func(*embed.Config)) *member {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		tb.Fatal(err)
	}
	m := &member{dir: tb.TempDir(), url: url.URL{Scheme: scheme, Host: address}, configure: configure}
	m.start(tb)
	tb.Cleanup(m.stop)
	return m
}

func (m *member) start(tb testing.TB) {
	tb.Helper()
	c := embed.NewConfig()
	c.Name = "elsewhere"
	c.Dir = m.dir
	c.ListenPeerUrls = nil
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{m.url}, []url.URL{m.url}
	c.InitialCluster = c.Name + "=" + c.AdvertisePeerUrls[0].String()
	c.TickMs, c.ElectionMs = 10, 50
	c.MaxRequestBytes = 8 << 20
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	if m.configure != nil {
		m.configure(c)
	}
	var err error
	if m.server, err = embed.StartEtcd(c); err != nil {
		tb.Fatal(err)
	}
	<-m.server.Server.ReadyNotify()
}

func (m *member) stop() {
	if m.server != nil {
		m.server.Close()
		m.server = nil
	}
}

func dial(tb testing.TB, config etcd.Config) *etcd.Store {
	tb.Helper()
	s, err := etcd.Dial(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestExternal(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		m := newMember(t, "http", nil)
		return dial(t, etcd.Config{Endpoints: []string{m.url.String()}, PageSize: 100})
	})
}

// TestExternalCached puts a watch cache in front of a cluster elsewhere, whose
// progress has to be asked for.
func TestExternalCached(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		m := newMember(t, "http", nil)
		c, err := watchcache.New(t.Context(), watchcache.Config{Store: dial(t, etcd.Config{Endpoints: []string{m.url.String()}})})
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

// TestUnreachable stops the etcd elsewhere and starts it again: calls fail in
// bounded time, and everything goes on by itself.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	m := newMember(t, "http", nil)
	s := dial(t, etcd.Config{Endpoints: []string{m.url.String()}, Timeout: time.Second})
	ctx := t.Context()
	revision, w := watchedPod(t, s)
	defer w.Close()

	m.stop()
	calls := map[string]func() error{
		"Get":     func() error { _, err := s.Get(ctx, "/registry/pods/a/x", storage.GetOptions{}); return err },
		"List":    func() error { _, err := s.List(ctx, "/registry/", storage.ListOptions{}); return err },
		"Current": func() error { _, err := s.Current(ctx); return err },
		"Create":  func() error { _, err := s.Create(ctx, "/registry/pods/a/y", nil, 0); return err },
		"Mortal":  func() error { _, err := s.Create(ctx, "/registry/events/y", nil, time.Hour); return err },
		"Update":  func() error { _, err := s.Update(ctx, "/registry/pods/a/x", nil, revision, 0); return err },
		"Delete":  func() error { _, err := s.Delete(ctx, "/registry/pods/a/x", revision); return err },
		"Compact": func() error { return s.Compact(ctx, revision) },
		"Watch":   func() error { _, err := s.Watch(ctx, "/registry/", storage.WatchOptions{}); return err },
	}
	for name, call := range calls {
		begin := time.Now()
		if err := call(); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s without etcd: %v", name, err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s without etcd took %v", name, took)
		}
	}

	m.start(t)
	var written int64
	eventually(t, "a write after the outage", func() (err error) {
		written, err = s.Update(ctx, "/registry/pods/a/x", []byte("two"), revision, 0)
		return err
	})
	events, err := w.Next(ctx)
	if err != nil {
		t.Fatalf("the watch did not survive: %v", err)
	}
	if len(events) != 1 || events[0].Revision() != written || string(events[0].Item.Value) != "two" {
		t.Errorf("events after the outage: %+v; want one of revision %d", events, written)
	}
}

// watchedPod creates an item and returns its revision and a watcher after it.
func watchedPod(t *testing.T, s storage.Store) (int64, storage.Watcher) {
	t.Helper()
	revision, err := s.Create(t.Context(), "/registry/pods/a/x", []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(t.Context(), "/registry/", storage.WatchOptions{After: revision})
	if err != nil {
		t.Fatal(err)
	}
	return revision, w
}

func TestDialFailure(t *testing.T) {
	t.Parallel()
	m := newMember(t, "http", nil)
	m.stop()
	begin := time.Now()
	_, err := etcd.Dial(t.Context(), etcd.Config{Endpoints: []string{m.url.String()}, Timeout: time.Second})
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Dial where nothing listens: %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("Dial where nothing listens took %v", took)
	}
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	begin = time.Now()
	_, err = etcd.Dial(t.Context(), etcd.Config{Endpoints: []string{"http://" + silent.Addr().String()}, Timeout: time.Second})
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Dial to a silent server: %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("Dial to a silent server took %v", took)
	}
	for _, config := range []etcd.Config{
		{},
		{Endpoints: []string{"http://127.0.0.1:1"}, CertFile: "only.crt"},
		{Endpoints: []string{"https://127.0.0.1:1"}, CAFile: "missing.crt"},
	} {
		if _, err := etcd.Dial(t.Context(), config); err == nil {
			t.Errorf("Dial(%+v) succeeded", config)
		}
	}
}
