package etcd_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
)

// writerEnv makes the test binary write to the directory that it names until
// it is killed.
const writerEnv = "PROA_TEST_ETCD_WRITER"

// write creates keys, and updates one, and prints each acknowledged revision.
func write(dir string) {
	ctx := context.Background()
	s, err := etcd.Start(ctx, etcd.Config{DataDir: dir, Compaction: -1, MinFreeBytes: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	run := os.Getpid()
	value := strings.Repeat("v", 1000)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			counter := fmt.Sprintf("/registry/counters/%d-%d", run, worker)
			var err error
			revision := int64(0)
			for i := 0; ; i++ {
				var made int64
				key := fmt.Sprintf("/registry/pods/%d-%d-%06d", run, worker, i)
				if made, err = s.Create(ctx, key, []byte(value+key), 0); err == nil {
					fmt.Fprintln(os.Stdout, made, key)
				}
				if revision == 0 {
					revision, err = s.Create(ctx, counter, []byte(value+counter), 0)
				} else {
					revision, err = s.Update(ctx, counter, []byte(value+counter), revision, 0)
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Fprintln(os.Stdout, revision, counter)
			}
		})
	}
	wg.Wait()
}

// TestKill kills a process that writes, at random moments, and checks that
// every write which it had acknowledged is there afterwards.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := map[int64]string{}
	for range 6 {
		written, err := runWriter(t, dir, time.Duration(rand.IntN(300))*time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the writer ended by itself: %v", err)
		}
		for revision, key := range written {
			if other, twice := acknowledged[revision]; twice {
				t.Errorf("revision %d was given to %q and to %q", revision, other, key)
			}
			acknowledged[revision] = key
		}
	}
	t.Logf("%d acknowledged writes in 6 lives", len(acknowledged))
	checkWrites(t, dir, acknowledged)
}

// checkWrites checks that acknowledged writes are in a data directory.
func checkWrites(t *testing.T, dir string, acknowledged map[int64]string) {
	t.Helper()
	s := start(t, etcd.Config{DataDir: dir, Compaction: -1, MinFreeBytes: -1})
	value := strings.Repeat("v", 1000)
	for revision, key := range acknowledged {
		item, err := s.Get(t.Context(), key, storage.GetOptions{Match: storage.Exact, Revision: revision})
		if err != nil || item.Revision != revision || string(item.Value) != value+key {
			t.Fatalf("the write of %q at %d is lost: revision %d, error %v", key, revision, item.Revision, err)
		}
	}
}

// runWriter runs one life of a writer, which it kills some time after the
// first write, and returns what it acknowledged, and how it ended.
func runWriter(t *testing.T, dir string, life time.Duration) (map[int64]string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), writerEnv+"="+dir)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = command.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[int64]string{}
	lines := bufio.NewScanner(output)
	var killer *time.Timer
	for lines.Scan() {
		var revision int64
		var key string
		if n, _ := fmt.Sscan(lines.Text(), &revision, &key); n != 2 {
			break // the line that the kill cut
		}
		acknowledged[revision] = key
		if killer == nil {
			killer = time.AfterFunc(life, func() {
				_ = command.Process.Kill() // it may have ended
			})
		}
	}
	if killer != nil {
		defer killer.Stop()
	}
	err = command.Wait()
	if complaint.Len() > 0 {
		t.Logf("the writer said: %s", complaint.String())
	}
	return acknowledged, err
}
