package wasmplugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/labels"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/native"
)

// Reasons of conditions, beside those of the engine.
const (
	reasonServing         = "Serving"
	reasonServingPrevious = "ServingPrevious"
	reasonCompiled        = "Compiled"
	reasonNoContent       = "NoContent"
	reasonContentMissing  = "ContentMissing"
	reasonInvalidModule   = "InvalidModule"
	reasonUnsupportedABI  = "UnsupportedABI"
	reasonModuleNotFound  = "ModuleNotFound"
	reasonModuleNotReady  = "ModuleNotReady"
	reasonInvalidSettings = "InvalidSettings"
	reasonInvalidSpec     = "InvalidSpec"
)

// first loads what is there at the start: first the plugins' places in the
// order, so that no request slips by, then their modules, then they are
// started.
func (h *Host) first(ctx context.Context) {
	plugins := h.plugins.List(labels.Everything())
	for _, p := range plugins {
		h.bind(p, h.stateOf(p.Name))
	}
	h.publish()
	close(h.synced)
	var keys []key
	for _, m := range h.modules.List(labels.Everything()) {
		keys = append(keys, key{true, m.Name})
	}
	for _, p := range plugins {
		keys = append(keys, key{false, p.Name})
	}
	for _, k := range keys {
		if err := h.sync(ctx, k); err != nil && ctx.Err() == nil {
			h.work.AddRateLimited(k)
		}
	}
}

// sync brings one module or plugin to what its object says.
func (h *Host) sync(ctx context.Context, k key) error {
	if k.module {
		return h.syncModule(ctx, k.name)
	}
	return h.syncPlugin(ctx, k.name)
}

// syncModule loads a module's code, unless it is loaded.
func (h *Host) syncModule(ctx context.Context, name string) error {
	m, ok := h.modules.Get("", name)
	if !ok {
		h.setModule(name, nil)
		return nil
	}
	digest := m.Spec.Digest
	if len(m.Spec.Code) > 0 {
		digest = engine.Digest(m.Spec.Code)
	}
	h.mu.Lock()
	have := h.code[name]
	if have != nil && have.digest == digest && (have.code != nil || have.final) {
		have.generation = m.Generation
		h.mu.Unlock()
		h.status.Add(key{true, name})
		return nil
	}
	h.mu.Unlock()

	s, err := h.loadModule(ctx, m, digest)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	h.setModule(name, s)
	h.status.Add(key{true, name})
	return err
}

// loadModule fetches and compiles a module's code. An error means that it is
// worth trying again.
func (h *Host) loadModule(ctx context.Context, m *pluginsv1.WasmModule, digest string) (*moduleState, error) {
	s := &moduleState{generation: m.Generation, digest: digest}
	if digest == "" {
		s.final = true
		s.problem = &problem{reasonNoContent, "spec.code is empty and nothing was uploaded to the content subresource"}
		return s, nil
	}
	wasm := m.Spec.Code
	if len(wasm) == 0 {
		var err error
		if wasm, err = h.chunks.read(ctx, digest); err != nil {
			s.problem = &problem{reasonContentMissing, err.Error()}
			return s, err
		}
	}
	code, err := h.engine.Load(ctx, wasm)
	if err != nil {
		s.final = errors.Is(err, engine.ErrInvalid)
		s.problem = &problem{reasonInvalidModule, oneLine(err)}
		if s.final {
			err = nil
		}
		return s, err
	}
	s.abi = abi.Detect(code.Exports, code.Imports, code.Sections)
	if _, err := abi.ParseManifest(code.Sections[abi.ManifestSection]); err != nil {
		s.problem = &problem{reasonInvalidModule, err.Error()}
	} else if s.abi != abi.Native {
		s.problem = &problem{reasonUnsupportedABI, fmt.Sprintf("the module's ABI is %s, which cannot be run; %s is wanted", cmp.Or(s.abi, "unknown"), abi.Native)}
	}
	s.code = &codeRef{Code: code, users: 1}
	h.c.Log.Info().Str("module", m.Name).Str("digest", digest).Dur("took_ms", code.CompileTime).Bool("cached", code.CacheHit).Msg("plugin code loaded")
	return s, nil
}

// oneLine makes one line of an error, without what hides the cause.
func oneLine(err error) string {
	s := strings.TrimPrefix(err.Error(), engine.ErrInvalid.Error()+": ")
	s, _, _ = strings.Cut(s, "\n")
	return cut(s, 1024)
}

// setModule takes a module's new state and has its plugins look at it.
func (h *Host) setModule(name string, s *moduleState) {
	h.mu.Lock()
	if old := h.code[name]; old != nil && old.code != nil {
		old.code.release()
	}
	if s == nil {
		delete(h.code, name)
	} else {
		h.code[name] = s
	}
	h.mu.Unlock()
	for _, p := range h.plugins.List(labels.Everything()) {
		if p.Spec.Module == name {
			h.work.Add(key{false, p.Name})
		}
	}
}

// stateOf returns the state of a plugin, a new one if it has none.
func (h *Host) stateOf(name string) *pluginState {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.loaded[name]
	if s == nil {
		s = newPluginState(name, h.metrics.plugin(name))
		h.loaded[name] = s
	}
	return s
}

// bind gives a plugin its place and its rules.
func (h *Host) bind(p *pluginsv1.AdmissionPlugin, s *pluginState) *problem {
	b, err := newBinding(p, s)
	if err != nil { // the API validates selectors, so this is a stored object of another version
		return &problem{reasonInvalidSpec, err.Error()}
	}
	h.mu.Lock()
	s.binding = b
	h.mu.Unlock()
	return nil
}

// publish makes the table that requests see.
func (h *Host) publish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*binding
	for _, s := range h.loaded {
		if s.binding != nil {
			all = append(all, s.binding)
		}
	}
	h.table.Store(newTable(all))
}

// syncPlugin starts, restarts or removes a plugin.
func (h *Host) syncPlugin(ctx context.Context, name string) error {
	p, ok := h.plugins.Get("", name)
	if !ok {
		h.remove(name)
		return nil
	}
	s := h.stateOf(name)
	prob := h.bind(p, s)
	var err error
	if prob == nil {
		prob, err = h.start(ctx, p, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if now, _ := s.get(); now == nil && prob != nil {
		s.swap(nil, prob.reason+": "+prob.message)
	}
	s.looked(p.Generation, prob)
	h.publish()
	h.status.Add(key{false, name})
	return err
}

// start has a plugin run with the module, settings and limits of its object.
// What runs already goes on if that cannot be. An error means that it is worth
// trying again.
func (h *Host) start(ctx context.Context, p *pluginsv1.AdmissionPlugin, s *pluginState) (*problem, error) {
	h.mu.Lock()
	m := h.code[p.Spec.Module]
	if m == nil || m.code == nil || m.problem != nil {
		h.mu.Unlock()
		switch {
		case m == nil:
			return &problem{reasonModuleNotFound, fmt.Sprintf("there is no WasmModule %q", p.Spec.Module)}, nil
		case m.problem != nil:
			return &problem{reasonModuleNotReady, fmt.Sprintf("WasmModule %q: %s: %s", p.Spec.Module, m.problem.reason, m.problem.message)}, nil
		}
		return &problem{reasonModuleNotReady, fmt.Sprintf("WasmModule %q is being compiled", p.Spec.Module)}, nil
	}
	code := m.code.acquire()
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		code.release()
		h.mu.Unlock()
	}()

	config := native.Config{Name: p.Name, Limits: limitsOf(p), Log: h.guestLog(p.Name)}
	if p.Spec.Settings != nil {
		config.Settings = p.Spec.Settings.Raw
	}
	want := fmt.Sprintf("%s %+v %s", code.Digest, config.Limits, config.Settings)
	if s.programKey == want {
		return nil, nil
	}
	if s.failedKey == want {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.problem, nil
	}
	plugin, err := native.Start(ctx, h.engine, code.Code, config)
	if err != nil {
		return h.startProblem(s, want, err)
	}
	s.swap(plugin, "")
	s.programKey, s.failedKey = want, ""
	s.mu.Lock()
	s.digest = code.Digest
	s.mu.Unlock()
	h.c.Log.Info().Str("plugin", p.Name).Str("digest", code.Digest).Msg("admission plugin started")
	return nil, nil
}

// startProblem judges why a plugin could not be started.
func (h *Host) startProblem(s *pluginState, want string, err error) (*problem, error) {
	if errors.Is(err, abi.ErrSettings) {
		s.failedKey = want
		return &problem{reasonInvalidSettings, err.Error()}, nil
	}
	var ee *engine.Error
	if !errors.As(err, &ee) {
		return &problem{string(engine.Trapped), oneLine(err)}, err
	}
	if ee.Reason == engine.DeadlineExceeded || ee.Reason == engine.Canceled {
		return &problem{string(ee.Reason), ee.Detail}, err // the machine may have been busy
	}
	s.failedKey = want
	return &problem{string(ee.Reason), ee.Detail}, nil
}

// remove ends a plugin whose object is gone.
func (h *Host) remove(name string) {
	h.mu.Lock()
	s := h.loaded[name]
	delete(h.loaded, name)
	h.mu.Unlock()
	if s == nil {
		return
	}
	h.publish()
	s.swap(nil, removed)
	h.metrics.forget(name)
}

// closeAll ends everything. Nothing syncs any more.
func (h *Host) closeAll() {
	h.work.ShutDown()
	h.status.ShutDown()
	h.mu.Lock()
	states, modules := h.loaded, h.code
	h.loaded, h.code = nil, nil
	h.mu.Unlock()
	for _, s := range states {
		s.swap(nil, "the server is shutting down")
	}
	h.mu.Lock()
	for _, m := range modules {
		if m.code != nil {
			m.code.release()
		}
	}
	h.mu.Unlock()
	if err := h.engine.Close(); err != nil {
		h.c.Log.Warn().Err(err).Msg("cannot close the plugin engine")
	}
}

func limitsOf(p *pluginsv1.AdmissionPlugin) engine.Limits {
	l := engine.Limits{}
	if s := p.Spec.Limits; s != nil {
		l.Timeout = time.Duration(s.TimeoutMillis) * time.Millisecond
		l.Memory = int64(s.MemoryMiB) << 20
		l.Fuel = s.Fuel
	}
	return l
}

// guestLog returns where a plugin's output goes.
func (h *Host) guestLog(name string) func(engine.Level, []byte) {
	log := h.c.Log.With().Str("plugin", name).Logger()
	levels := [...]zerolog.Level{engine.Debug: zerolog.DebugLevel, engine.Notice: zerolog.InfoLevel, engine.Warn: zerolog.WarnLevel, engine.Err: zerolog.ErrorLevel}
	return func(l engine.Level, line []byte) {
		log.WithLevel(levels[l]).Bytes("text", line).Msg("plugin output")
	}
}
