package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/proa-project/proa/wasmplugins/fuel"
)

// An Info is what can be read from a module without running it.
type Info struct {
	// Digest is "sha256:" and the hexadecimal digest of the original.
	Digest string
	// Size is of the original, in bytes.
	Size int64
	// Exports maps exported functions to their signatures, such as
	// "(i32,i32)i64".
	Exports map[string]string
	// Imports are the imported functions as "module.name", in module order.
	Imports []string
	// Sections are the custom sections that are not debug information.
	Sections map[string][]byte
	// MemoryMin is the memory that an instance has at first, in bytes.
	MemoryMin int64
	// Globals and HiddenState are those of fuel.Result.
	Globals     []string
	HiddenState bool
}

// A Code is a module that was validated, metered and compiled. Close it when
// no program will be started from it any more.
type Code struct {
	Info
	// CompileTime is how long Load took; CacheHit says that it found the work
	// done on disk.
	CompileTime time.Duration
	CacheHit    bool

	metered  []byte
	cache    wazero.CompilationCache
	rt       wazero.Runtime
	compiled wazero.CompiledModule // keeps the machine code in the cache
}

// Digest returns the digest that Load will give to a module.
func Digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Load validates, meters and compiles a module, or finds that in the cache. It
// takes milliseconds to seconds. Errors about the module wrap ErrInvalid, and
// context.DeadlineExceeded if it took longer to compile than is allowed, which
// may have been the machine's fault.
func (e *Engine) Load(ctx context.Context, wasm []byte) (*Code, error) {
	e.compiling.Lock()
	defer e.compiling.Unlock()
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, e.c.CompileTimeout)
	defer cancel()
	ctx = experimental.WithCompilationWorkers(ctx, e.c.CompileWorkers)

	c := &Code{}
	digest := Digest(wasm)
	if !e.readCache(digest, c) {
		res, err := fuel.Rewrite(wasm, e.c.Fuel)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		info, err := inspect(ctx, res.Original)
		if err != nil {
			return nil, e.loadError(ctx, err)
		}
		info.Digest, info.Size, info.Sections = digest, int64(len(wasm)), res.Sections
		info.Globals, info.HiddenState, info.MemoryMin = res.Globals, res.HiddenState, int64(res.MemoryPages)<<16
		c.Info, c.metered = *info, res.Module
	} else {
		c.CacheHit = true
	}
	if err := e.compile(ctx, c); err != nil {
		return nil, e.loadError(ctx, err)
	}
	c.CompileTime = time.Since(start)
	return c, nil
}

func (e *Engine) loadError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: compiling took longer than %v: %w", ErrInvalid, e.c.CompileTimeout, context.DeadlineExceeded)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

// build has the compiler, or its cache, make the machine code.
func (c *Code) build(ctx context.Context) (err error) {
	c.rt = c.newRuntime(ctx)
	if c.compiled, err = c.rt.CompileModule(ctx, c.metered); err != nil {
		_ = c.rt.Close(ctx) // has no instance
	}
	return err
}

// newRuntime returns a runtime that shares the code's machine code.
func (c *Code) newRuntime(ctx context.Context) wazero.Runtime {
	return wazero.NewRuntimeWithConfig(ctx, runtimeConfig(wazero.NewRuntimeConfig()).WithCompilationCache(c.cache))
}

// Close frees the code. The cache stays as long as a program uses it.
func (c *Code) Close() {
	ctx := context.Background()
	_ = c.compiled.Close(ctx) // frees memory only
	_ = c.rt.Close(ctx)       // has no instance
}

// inspect validates the original. Only the interpreter is asked, which is
// quick: what is invalid could be valid after the rewrite.
func inspect(ctx context.Context, wasm []byte) (*Info, error) {
	rt := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(wazero.NewRuntimeConfigInterpreter()))
	defer rt.Close(ctx) //nolint:errcheck // has no instance
	m, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		return nil, err
	}
	defer m.Close(ctx) //nolint:errcheck // frees memory only
	info := &Info{Exports: map[string]string{}}
	for name, f := range m.ExportedFunctions() {
		info.Exports[name] = signature(f)
	}
	for _, f := range m.ImportedFunctions() {
		mod, name, _ := f.Import()
		info.Imports = append(info.Imports, mod+"."+name)
	}
	return info, nil
}

func signature(f api.FunctionDefinition) string {
	names := func(ts []api.ValueType) string {
		s := make([]string, len(ts))
		for i, t := range ts {
			s[i] = api.ValueTypeName(t)
		}
		return strings.Join(s, ",")
	}
	return "(" + names(f.ParamTypes()) + ")" + names(f.ResultTypes())
}
