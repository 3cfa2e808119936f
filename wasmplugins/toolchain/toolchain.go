// Package toolchain turns the sources of plugins into modules: it knows how the
// compiler of each language is found and called, and what to install if there
// is none.
package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Language is one that there is a kit for.
type Language string

// The languages.
const (
	Go             Language = "go"
	Rust           Language = "rust"
	AssemblyScript Language = "assemblyscript"
	C              Language = "c"
)

// Languages are all of them.
func Languages() []Language { return []Language{Go, Rust, AssemblyScript, C} }

// ManifestFile is the file beside the sources that becomes the module's
// manifest, if it is there.
const ManifestFile = "manifest.json"

// Config says what to build.
type Config struct {
	// Dir has the sources, Output is the file to write.
	Dir, Output string
	// Tools are folders that are searched for compilers after PATH.
	Tools []string
	// Env is added to the environment of the compilers.
	Env []string
	// Log gets what the compilers print.
	Log io.Writer
}

// Detect tells the language of the plugin in a folder by the file that each
// must have.
func Detect(dir string) (Language, error) {
	for _, l := range []struct {
		file string
		lang Language
	}{{"Cargo.toml", Rust}, {"index.ts", AssemblyScript}, {"plugin.c", C}, {"go.mod", Go}, {"main.go", Go}} {
		if _, err := os.Stat(filepath.Join(dir, l.file)); err == nil {
			return l.lang, nil
		}
	}
	return "", fmt.Errorf("%s: no plugin is here: neither go.mod nor Cargo.toml, index.ts or plugin.c", dir)
}

// Build builds the plugin in a folder, and puts its manifest into the module.
func Build(ctx context.Context, c Config) error {
	lang, err := Detect(c.Dir)
	if err != nil {
		return err
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Output, err = filepath.Abs(c.Output); err != nil {
		return err
	}
	switch lang {
	case Rust:
		err = c.rust(ctx)
	case AssemblyScript:
		err = c.assemblyScript(ctx)
	case C:
		err = c.c(ctx)
	default:
		err = c.run(ctx, []string{"GOOS=wasip1", "GOARCH=wasm"}, "go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o", c.Output, ".")
	}
	if err != nil {
		return err
	}
	return addManifest(filepath.Join(c.Dir, ManifestFile), c.Output)
}

// run runs a compiler in the folder.
func (c *Config) run(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // compilers, on the user's own files
	cmd.Dir = c.Dir
	cmd.Env = slices.Concat(os.Environ(), c.Env, env)
	cmd.Stdout, cmd.Stderr = c.Log, c.Log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append([]string{filepath.Base(name)}, args...), " "), err)
	}
	return nil
}

// find returns the path of the first of some programs that there is.
func (c *Config) find(names ...string) (string, bool) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
		for _, dir := range c.Tools {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, true
			}
		}
	}
	return "", false
}

// versioned returns a program's names with the versions of LLVM, as Debian has
// them, newest first.
func versioned(name string) []string {
	names := []string{name}
	for v := 24; v >= 14; v-- {
		names = append(names, fmt.Sprintf("%s-%d", name, v))
	}
	return names
}

// c builds plugin.c, which includes everything else.
func (c *Config) c(ctx context.Context) error {
	clang, ok := c.find(versioned("clang")...)
	if !ok {
		return errors.New("a plugin in C needs clang and lld (on Debian: apt-get install clang lld)")
	}
	return c.run(ctx, nil, clang, "--target=wasm32", "-mbulk-memory", "-O2", "-std=c11", "-Wall", "-ffreestanding", "-nostdlib",
		"-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--stack-first", "-Wl,-z,stack-size=65536", "-o", c.Output, "plugin.c")
}

// assemblyScript builds index.ts with the compiler of the plugin's own
// node_modules, or else of the machine.
func (c *Config) assemblyScript(ctx context.Context) error {
	own := *c
	if dir, err := filepath.Abs(filepath.Join(c.Dir, "node_modules", ".bin")); err == nil {
		own.Tools = append([]string{dir}, c.Tools...)
	}
	asc, ok := own.find("asc")
	if !ok {
		return errors.New("a plugin in AssemblyScript needs Node.js and its compiler (in the plugin's folder: npm install assemblyscript)")
	}
	return c.run(ctx, nil, asc, "index.ts", "-O3", "--noAssert", "--runtime", "stub", "--use", "abort=", "--enable", "bulk-memory", "-o", c.Output)
}
