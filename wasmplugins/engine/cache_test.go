package engine_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// seven is a module that answers 7.
func seven() []byte {
	return build(func(m *Module) { m.Func("run", nil, []byte{I32}, nil, Const32(7)) })
}

// loadAndCall loads the module in a new engine, has it answer, and reports
// whether the cache was of use.
func loadAndCall(t *testing.T, c engine.Config) (hit bool) {
	t.Helper()
	e := newEngine(t, c)
	code, err := e.Load(context.Background(), seven())
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	p, err := e.Start(context.Background(), code, engine.ProgramConfig{Name: "p", Exports: []string{"run"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got, _, err := call(p); got != 7 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	return code.CacheHit
}

// TestCorruptCache: what has changed on disk, wherever, is neither executed nor
// in the way.
func TestCorruptCache(t *testing.T) {
	dir := t.TempDir()
	c := engine.Config{CacheDir: dir}
	if loadAndCall(t, c) {
		t.Fatal("a hit in an empty cache")
	}
	files := cacheFiles(t, dir)
	if len(files) != 2 {
		t.Fatalf("the cache has the files %v", files)
	}
	for _, name := range files {
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		spoil := func(what string, f func() error) {
			t.Helper()
			if err := f(); err != nil {
				t.Fatal(err)
			}
			if loadAndCall(t, c) {
				t.Errorf("%s: %s is taken", filepath.Base(name), what)
			}
			if !loadAndCall(t, c) {
				t.Errorf("%s: %s is not mended", filepath.Base(name), what)
			}
		}
		for _, at := range []int{0, len(good) / 3, len(good) / 2, len(good) - 1} {
			spoil("a flipped bit", func() error {
				b := bytes.Clone(good)
				b[at] ^= 0x10
				return os.WriteFile(name, b, 0o600)
			})
		}
		spoil("half a file", func() error { return os.WriteFile(name, good[:len(good)/2], 0o600) })
		spoil("an empty file", func() error { return os.WriteFile(name, nil, 0o600) })
		spoil("no file", func() error { return os.Remove(name) })
		spoil("a folder", func() error { return os.Rename(filepath.Dir(name), filepath.Join(dir, "away"+filepath.Base(name))) })
	}
}

func cacheFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestUnusableCache: a disk that takes nothing, which is what a full one is,
// costs the cache and nothing else.
func TestUnusableCache(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	c := engine.Config{CacheDir: dir, Log: zerolog.New(&log)}
	e := newEngine(t, c)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	// A file in the folder's place refuses everything, even to root.
	place := filepath.Join(dir, entries[0].Name())
	if err := os.Remove(place); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		code, err := e.Load(context.Background(), seven())
		if err != nil || code.CacheHit {
			t.Fatal(err)
		}
		p, err := e.Start(context.Background(), code, engine.ProgramConfig{Name: "p", Exports: []string{"run"}})
		if err != nil {
			t.Fatal(err)
		}
		code.Close() // the program goes on
		if got, _, err := call(p); got != 7 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		p.Close()
	}
	if !bytes.Contains(log.Bytes(), []byte("cannot use the cache")) {
		t.Errorf("the operator is told %q", log.String())
	}
}

func TestForget(t *testing.T) {
	dir := t.TempDir()
	c := engine.Config{CacheDir: dir}
	loadAndCall(t, c)
	e := newEngine(t, c)
	for _, digest := range []string{"", "sha256:", engine.Digest([]byte("another")), engine.Digest(seven())} {
		if err := e.Forget(digest); err != nil {
			t.Error(err)
		}
		if want := 2; digest != engine.Digest(seven()) && len(cacheFiles(t, dir)) != want {
			t.Errorf("forgetting %q left %v", digest, cacheFiles(t, dir))
		}
	}
	if left := cacheFiles(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if loadAndCall(t, c) {
		t.Error("a hit after Forget")
	}
}
