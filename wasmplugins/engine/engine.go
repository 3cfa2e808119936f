package engine

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/proa-project/proa/wasmplugins/fuel"
)

// Config configures an Engine. The zero value works, without a disk cache.
type Config struct {
	// CacheDir holds compiled modules over restarts; "" keeps them in memory
	// only. It must be writable by nobody else: what is in it is executed.
	CacheDir string
	// Log gets what only an operator can mend, such as a broken cache.
	Log zerolog.Logger
	// CompileTimeout bounds the compilation of one module. Default 30 s.
	CompileTimeout time.Duration
	// CompileWorkers is how many threads compile a module. Default 2.
	CompileWorkers int
	// Fuel are the bounds of modules and the charges.
	Fuel fuel.Options
	// PlainMemory turns the copy-on-write memory off: each call then costs a
	// copy of the whole memory.
	PlainMemory bool
}

// An Engine compiles modules and starts programs. It is safe for concurrent
// use.
type Engine struct {
	c   Config
	cow *cowProbe // nil: plain memory
	dir string    // of what is cached, "" for none

	compiling sync.Mutex // one module at a time: compilation takes much memory
}

// New returns an engine. It fails if CacheDir cannot be used.
func New(c Config) (*Engine, error) {
	if c.CompileTimeout == 0 {
		c.CompileTimeout = 30 * time.Second
	}
	if c.CompileWorkers == 0 {
		c.CompileWorkers = 2
	}
	e := &Engine{c: c}
	if c.CacheDir != "" {
		e.dir = cacheDir(c.CacheDir, fuel.Version)
		if err := os.MkdirAll(e.dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the module cache: %w", err)
		}
	}
	if !c.PlainMemory {
		e.cow = probeCOW()
	}
	return e, nil
}

// Close frees the compiled code. All programs must have been closed.
func (e *Engine) Close() error {
	if e.cow != nil {
		return e.cow.close()
	}
	return nil
}

func runtimeConfig(c wazero.RuntimeConfig) wazero.RuntimeConfig {
	// The allocator enforces the memory limit; the deadline is the meter's.
	return c.WithCoreFeatures(api.CoreFeaturesV2).WithCloseOnContextDone(false).WithDebugInfoEnabled(false)
}

// wazeroVersion is part of the key of what is cached.
func wazeroVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/tetratelabs/wazero" {
				return d.Version
			}
		}
	}
	return "unknown-" + runtime.Version()
}
