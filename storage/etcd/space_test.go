package etcd_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
)

// TestQuota fills the database: writes are refused, deletes and reads go on,
// and after deletes everything works again by itself.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := start(t, etcd.Config{QuotaBytes: 8 << 20, Compaction: -1})
	ctx := t.Context()
	value := bytes.Repeat([]byte("v"), 256<<10)
	revisions := map[string]int64{}
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		key := fmt.Sprintf("/registry/secrets/a/%d", i)
		var revision int64
		if revision, err = s.Create(ctx, key, value, 0); err == nil {
			revisions[key] = revision
		}
	}
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("writes over the quota: %v after %d", err, len(revisions))
	}
	// The write that hits the quota may be refused after it has been applied:
	// what was not acknowledged may be there, what was has to be.
	l, err := s.List(ctx, "/registry/", storage.ListOptions{})
	if err != nil || len(l.Items) < len(revisions) || len(l.Items) > len(revisions)+1 {
		t.Errorf("List of a full database: %d items of %d, error %v", len(l.Items), len(revisions), err)
	}
	for key, revision := range revisions {
		if _, err := s.Delete(ctx, key, revision); err != nil {
			t.Fatalf("Delete in a full database: %v", err)
		}
	}
	eventually(t, "a write after deletes", func() error {
		_, err := s.Create(ctx, "/registry/secrets/a/new", value, 0)
		return err
	})
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	s := start(t, etcd.Config{})
	_, err := s.Create(t.Context(), "/registry/secrets/a/x", make([]byte, 5<<20), 0)
	if !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("Create of 5 MiB: %v", err)
	}
}

// smallDisk mounts a small file system.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no small file system to fill: %v; run as root", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// TestDiskError lets etcd write until the disk is full, without the check
// that prevents it: the process ends, but no acknowledged write is lost.
func TestDiskError(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "146m")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 6<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	acknowledged, err := runWriter(t, data, time.Minute)
	if err == nil || strings.Contains(err.Error(), "killed") {
		t.Fatalf("the writer has found no end of the disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d acknowledged writes until the disk was full", len(acknowledged))
	checkWrites(t, data, acknowledged)
}

// TestFullDisk fills the disk below the store.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "320m")
	s := start(t, etcd.Config{DataDir: filepath.Join(dir, "data"), MinFreeBytes: 48 << 20})
	ctx := t.Context()
	n := 0
	write := func() error {
		n++
		_, err := s.Create(ctx, fmt.Sprintf("/registry/pods/a/%d", n), []byte("v"), 0)
		return err
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	eventually(t, "a disk that is nearly full", func() error { // etcd may take some itself meanwhile
		var stat unix.Statfs_t
		if err := unix.Statfs(dir, &stat); err != nil {
			return err
		}
		return unix.Fallocate(int(ballast.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-(16<<20))
	})
	eventually(t, "refusal on a full disk", func() error {
		if err := write(); !errors.Is(err, storage.ErrUnavailable) {
			return fmt.Errorf("write: %w", errors.Join(err, errors.ErrUnsupported))
		}
		return nil
	})
	if _, err := s.Get(ctx, "/registry/pods/a/1", storage.GetOptions{}); err != nil {
		t.Errorf("Get on a full disk: %v", err)
	}
	if err := ballast.Truncate(0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a write after the disk has space", write)
}
