package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/storage/etcd"
)

var podValue = bytes.Repeat([]byte("0123456789abcdef"), 128) // 2 KiB, the size of a pod

// BenchmarkCreate creates items of 2 KiB, by 1 and by 32 writers.
func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := start(b, etcd.Config{})
			var n atomic.Int64
			b.SetParallelism((writers + 1) / 2) // of GOMAXPROCS
			b.ReportAllocs()
			run := func() error {
				_, err := s.Create(context.Background(), fmt.Sprintf("/registry/pods/default/pod-%08d", n.Add(1)), podValue, 0)
				return err
			}
			benchmark(b, writers, run)
		})
	}
}

// BenchmarkUpdate updates one item per writer.
func BenchmarkUpdate(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := start(b, etcd.Config{})
			var n atomic.Int64
			b.SetParallelism((writers + 1) / 2)
			b.ReportAllocs()
			benchmark(b, writers, func() error {
				key := fmt.Sprintf("/registry/pods/default/pod-%02d", n.Add(1)%64)
				revision := int64(0)
				for {
					_, err := s.Update(context.Background(), key, podValue, revision, 0)
					var conflict *storage.ConflictError
					switch {
					case errors.Is(err, storage.ErrNotFound):
						_, err = s.Create(context.Background(), key, podValue, 0)
						return err
					case errors.As(err, &conflict):
						revision = conflict.Current.Revision
					default:
						return err
					}
				}
			})
		})
	}
}

func benchmark(b *testing.B, writers int, run func() error) {
	b.Helper()
	if writers == 1 {
		for b.Loop() {
			if err := run(); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := run(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkCurrent asks for the revision, which every fresh read does.
func BenchmarkCurrent(b *testing.B) {
	s := start(b, etcd.Config{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Current(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart starts and closes a server.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s, err := etcd.Start(context.Background(), etcd.Config{DataDir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
