package etcd_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
	"github.com/proa-project/proa/storage/storagetest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		write(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func start(tb testing.TB, config etcd.Config) *etcd.Embedded {
	tb.Helper()
	if config.DataDir == "" {
		config.DataDir = tb.TempDir()
	}
	s, err := etcd.Start(tb.Context(), config)
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

// eventually repeats try until it succeeds or half a minute is over.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		return start(t, etcd.Config{})
	})
}

// TestRestart checks that everything is there after an orderly end.
func TestRestart(t *testing.T) {
	t.Parallel()
	config := etcd.Config{DataDir: t.TempDir()}
	ctx := t.Context()
	want := map[string]int64{}
	for _, key := range []string{"/registry/pods/a/x", "/registry/pods/a/y", "/proa/z"} {
		s, err := etcd.Start(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		if want[key], err = s.Create(ctx, key, []byte(key), 0); err != nil {
			t.Fatal(err)
		}
		l, err := s.List(ctx, "/", storage.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Items) != len(want) {
			t.Errorf("%d items, want %d", len(l.Items), len(want))
		}
		for _, item := range l.Items {
			if string(item.Value) != item.Key || item.Revision != want[item.Key] {
				t.Errorf("%q has value %q at %d, want revision %d", item.Key, item.Value, item.Revision, want[item.Key])
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPrivate checks that others can neither reach the server nor read its
// files, and that a second one on the directory is refused at once.
func TestPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, etcd.Config{DataDir: dir})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data directory has mode %v, error %v", info.Mode(), err)
	}
	_, err := etcd.Start(t.Context(), etcd.Config{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("second Start on a directory: %v", err)
	}
	for _, config := range []etcd.Config{{}, {DataDir: dir, Endpoints: []string{"http://127.0.0.1:1"}}, {DataDir: "/dev/null/x"}} {
		if _, err := etcd.Start(t.Context(), config); err == nil {
			t.Errorf("Start(%+v) succeeded", config)
		}
	}
}

// TestDamage checks that damaged files are an error, not a panic.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(dir string) error{
		"garbage": func(dir string) error { return os.WriteFile(dir+"/member/snap/db", []byte("no database"), 0o600) },
		"cut":     func(dir string) error { return os.Truncate(dir+"/member/snap/db", 5000) },
		"log": func(dir string) error {
			return os.WriteFile(dir+"/member/wal/0000000000000000-0000000000000000.wal", []byte("no log"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := etcd.Config{DataDir: t.TempDir()}
			s, err := etcd.Start(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Create(t.Context(), "/registry/pods/a/x", nil, 0); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := damage(config.DataDir); err != nil {
				t.Fatal(err)
			}
			// In a process of its own: etcd leaves things behind when it panics.
			if _, err := runWriter(t, config.DataDir, 0); err == nil || err.Error() != "exit status 1" {
				t.Errorf("Start on a damaged directory: %v", err)
			}
		})
	}
}

// TestCompaction checks that history goes by itself.
func TestCompaction(t *testing.T) {
	t.Parallel()
	s := start(t, etcd.Config{Compaction: 20 * time.Millisecond})
	ctx := t.Context()
	first, err := s.Create(ctx, "/registry/pods/a/x", []byte("one"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Update(ctx, "/registry/pods/a/x", []byte("two"), first, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "compaction", func() error {
		_, err := s.Get(ctx, "/registry/pods/a/x", storage.GetOptions{Match: storage.Exact, Revision: first})
		if err == nil {
			return os.ErrExist
		}
		return nil
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s, err := etcd.Start(t.Context(), etcd.Config{DataDir: t.TempDir(), Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Create(t.Context(), "/registry/pods/a/x", nil, 0); err != nil {
		t.Error(err)
	}
	names := func() string {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range families {
			all = append(all, f.GetName())
		}
		return strings.Join(all, " ")
	}
	if got, want := names(), "apiserver_storage_size_bytes etcd_request_duration_seconds etcd_requests_total"; got != want {
		t.Errorf("metrics %q, want %q", got, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := names(); got != "" {
		t.Errorf("metrics after Close: %q", got)
	}
}
