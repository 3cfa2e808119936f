package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const rustTarget = "wasm32-unknown-unknown"

// rust builds the crate in the folder: with cargo if that can build for
// WebAssembly, or else with rustc alone, which is enough for a crate that needs
// nothing but the kit.
func (c *Config) rust(ctx context.Context) error {
	if cargo, ok := c.find("cargo"); ok {
		if rustc, ok := c.find("rustc"); ok && hasTarget(ctx, rustc) && filepath.Dir(rustc) == filepath.Dir(cargo) {
			return c.cargo(ctx, cargo)
		}
	}
	for _, name := range []string{"rustc", "/usr/bin/rustc"} {
		if rustc, ok := c.find(name); ok && hasTarget(ctx, rustc) {
			return c.rustc(ctx, rustc)
		}
	}
	return errors.New("a plugin in Rust needs a compiler with the target " + rustTarget + " (rustup target add " + rustTarget + "; on Debian: apt-get install rustc libstd-rust-dev-wasm32 lld)")
}

func (c *Config) cargo(ctx context.Context, cargo string) error {
	target, err := os.MkdirTemp("", "proa-rust-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(target) //nolint:errcheck // a temporary folder
	if err = c.run(ctx, nil, cargo, "build", "--quiet", "--release", "--target", rustTarget, "--target-dir", target); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(target, rustTarget, "release", "*.wasm"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("cargo made %d modules; the crate must have one library of the type cdylib", len(found))
	}
	wasm, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	return os.WriteFile(c.Output, wasm, 0o644) //nolint:gosec // like a compiler's output
}

// kitPath finds the kit in a Cargo.toml.
var kitPath = regexp.MustCompile(`(?m)^proa-guest\s*=.*path\s*=\s*"([^"]+)"`)

func (c *Config) rustc(ctx context.Context, rustc string) error {
	toml, err := os.ReadFile(filepath.Join(c.Dir, "Cargo.toml"))
	if err != nil {
		return err
	}
	kit := kitPath.FindSubmatch(toml)
	if kit == nil {
		return fmt.Errorf("%s has no target %s for cargo, and without cargo Cargo.toml has to say proa-guest = { path = … }", rustc, rustTarget)
	}
	work, err := os.MkdirTemp("", "proa-rust-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a temporary folder
	args := []string{"--edition", "2021", "--target", rustTarget, "-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols", "-C", "embed-bitcode=yes"}
	if linker, ok := rustLinker(ctx, c, rustc); ok {
		args = append(args, "-C", "linker="+linker)
	}
	rlib := filepath.Join(work, "libproa_guest.rlib")
	err = c.run(ctx, nil, rustc, append(args, "--crate-type", "rlib", "--crate-name", "proa_guest", "-o", rlib, filepath.Join(string(kit[1]), "src", "lib.rs"))...)
	if err != nil {
		return err
	}
	return c.run(ctx, nil, rustc, append(args, "-C", "lto=fat", "--crate-type", "cdylib", "--crate-name", "plugin", "--extern", "proa_guest="+rlib, "-o", c.Output, filepath.Join("src", "lib.rs"))...)
}

// hasTarget reports whether a compiler has the library for WebAssembly.
func hasTarget(ctx context.Context, rustc string) bool {
	out, err := exec.CommandContext(ctx, rustc, "--print", "target-libdir", "--target", rustTarget).Output()
	if err != nil {
		return false
	}
	found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "libcore-*.rlib"))
	return err == nil && len(found) > 0
}

// rustLinker returns LLVM's linker in the version of the compiler's own LLVM,
// for compilers that come without rust-lld, as Debian's do.
func rustLinker(ctx context.Context, c *Config, rustc string) (string, bool) {
	sysroot, err := exec.CommandContext(ctx, rustc, "--print", "sysroot").Output()
	if err != nil {
		return "", false
	}
	found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(sysroot)), "lib", "rustlib", "*", "bin", "rust-lld"))
	if err == nil && len(found) > 0 {
		return "", false
	}
	version, err := exec.CommandContext(ctx, rustc, "-vV").Output()
	if err != nil {
		return "", false
	}
	_, llvm, _ := strings.Cut(string(version), "LLVM version: ")
	major, _, _ := strings.Cut(llvm, ".")
	return c.find("wasm-ld-"+major, "wasm-ld")
}
