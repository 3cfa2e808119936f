package etcd_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
	"github.com/proa-project/proa/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, config etcd.Config) *etcd.Embedded {
	t.Helper()
	if config.DataDir == "" {
		config.DataDir = t.TempDir()
	}
	begin := time.Now()
	s, err := etcd.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("start took %v", time.Since(begin))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storage.Store {
		t.Helper()
		return start(t, etcd.Config{})
	})
}
