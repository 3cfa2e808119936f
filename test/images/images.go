// Package images builds the container images of tests and examples from static
// Go programs, without a registry.
package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The names of the images. The registry does not exist.
const (
	Pause  = "local.test/pause:1"  // the sandbox's process
	Web    = "local.test/web:1"    // the example's web server
	Helper = "local.test/helper:1" // does what its arguments say; see helper/main.go
	// NonRoot is Helper with a user in its configuration.
	NonRoot = "local.test/helper-nonroot:1"
)

type recipe struct{ name, program, user string }

func recipes() []recipe {
	return []recipe{
		{Pause, "pause", "65535:65535"},
		{Web, "web", "65532:65532"},
		{Helper, "helper", ""},
		{NonRoot, "helper", "65532:65532"},
	}
}

// Build returns the paths of docker archives, one per image. It builds what
// the cache folder does not have; a change of a program makes it new.
func Build(ctx context.Context, cache string) ([]string, error) {
	var list []string
	for _, r := range recipes() {
		path, err := build(ctx, cache, r)
		if err != nil {
			return nil, fmt.Errorf("build image %q: %w", r.name, err)
		}
		list = append(list, path)
	}
	return list, nil
}

func build(ctx context.Context, cache string, r recipe) (string, error) {
	source := filepath.Join(sourceDir(), r.program)
	h := sha256.New()
	if err := hashDir(h, source, runtime.Version(), runtime.GOARCH, r); err != nil {
		return "", err
	}
	ref, err := name.NewTag(r.name)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "images")
	out := filepath.Join(dir, fmt.Sprintf("%s-%x.tar", filepath.Base(ref.RepositoryStr()), h.Sum(nil)[:6]))
	if _, err = os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	if err = os.MkdirAll(dir, 0o755); err != nil { // a cache that others may read
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp) // rubbish at worst
	binary := filepath.Join(tmp, r.program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".") // our own program
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if msg, failed := cmd.CombinedOutput(); failed != nil {
		return "", fmt.Errorf("go build: %w: %s", failed, msg)
	}
	img, err := image(binary, r)
	if err != nil {
		return "", err
	}
	archive := filepath.Join(tmp, "archive.tar")
	if err := tarball.WriteToFile(archive, ref, img); err != nil {
		return "", err
	}
	return out, os.Rename(archive, out)
}

// image returns an image of one layer with the program in it.
func image(binary string, r recipe) (v1.Image, error) {
	layer, err := rootfs(binary, r.program)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS = runtime.GOARCH, "linux"
	file.Config = v1.Config{
		Entrypoint: []string{"/" + r.program}, User: r.user,
		Env: []string{"PATH=/", "FROM_IMAGE=yes"}, WorkingDir: "/",
	}
	return mutate.ConfigFile(img, file)
}

func rootfs(binary, program string) ([]byte, error) {
	content, err := os.ReadFile(binary) // just built
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	files := []struct {
		tar.Header
		content []byte
	}{
		{Header: tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755}},
		{Header: tar.Header{Name: "etc/passwd", Mode: 0o644}, content: []byte("root:x:0:0:root:/:/none\nweb:x:65532:65532:web:/:/none\n")},
		{Header: tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}},
		{Header: tar.Header{Name: program, Mode: 0o755}, content: content},
	}
	for _, f := range files {
		f.Size = int64(len(f.content))
		if err := w.WriteHeader(&f.Header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), w.Close()
}

func hashDir(w io.Writer, dir string, about ...any) error {
	if _, err := fmt.Fprintln(w, about...); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(dir, e.Name())) // our own sources
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s %d\n%s", e.Name(), len(b), b); err != nil {
			return err
		}
	}
	return nil
}

// sourceDir returns where this file lies.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}
