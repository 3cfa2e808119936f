package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
)

// Reasons of conditions, beside those of the engine and of modules.
const (
	reasonServing         = "Serving"
	reasonServingPrevious = "ServingPrevious"
	reasonNoCandidate     = "NoModule"
	reasonModuleNotReady  = "ModuleNotReady"
	reasonInvalidSettings = "InvalidSettings"
	reasonBreakerOpen     = "BreakerOpen"
	reasonCalled          = "Called"
)

// removed is why a plugin that was deleted does not run: it has no say.
const removed = "removed"

// A problem is why what runs is not what the object says.
type problem struct{ reason, message string }

// sync brings one plugin to what its object says.
func (r *Runner[T, G]) sync(ctx context.Context, name string) error {
	o, ok := r.objects.Get("", name)
	if !ok {
		r.remove(name)
		return nil
	}
	h := r.handle(o)
	prob, err := r.start(ctx, o, h)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var none G
	if g, _ := h.get(); g == none && prob != nil {
		h.swap(none, "", prob.reason+": "+prob.message)
	}
	if h.looked(o.GetGeneration(), prob) && prob != nil && prob.reason != reasonNoCandidate {
		r.c.Events.Event(o, corev1.EventTypeWarning, "PluginNotReady", prob.reason+": "+prob.message)
	}
	r.publish()
	r.status.Add(name)
	return err
}

// start has a guest run with the module, settings and limits of the object.
// What runs already goes on if that cannot be. An error means that it is worth
// trying again.
func (r *Runner[T, G]) start(ctx context.Context, o T, h *Handle[T, G]) (*problem, error) {
	common := r.point.Common(o)
	var none G
	if common == nil {
		h.swap(none, "", removed)
		h.running, h.failing = "", ""
		return &problem{reasonNoCandidate, "the object names no module here"}, nil
	}
	prob, err := r.launch(ctx, o, h, common, common.Digest)
	if g, _ := h.get(); prob == nil || g != none || ctx.Err() != nil {
		return prob, err
	}
	// Nothing runs: after a restart, it may have been another version that did.
	if _, status := o.Bound(); !r.point.Silent && prob.reason != library.ReasonModuleNotFound && status.ModuleDigest != "" && status.ModuleDigest != common.Digest {
		failing := h.failing
		if again, _ := r.launch(ctx, o, h, common, status.ModuleDigest); again == nil {
			r.c.Log.Warn().Str("kind", r.point.Kind).Str("plugin", h.name).Str("reason", prob.reason).Msg("plugin runs in the version that ran before")
		}
		h.failing = failing
	}
	return prob, err
}

// launch has a guest run of a version of the module, "" being the current one.
func (r *Runner[T, G]) launch(ctx context.Context, o T, h *Handle[T, G], common *pluginsv1.Common, digest string) (*problem, error) {
	code, err := r.c.Modules.Get(ctx, common.Module, digest)
	if err != nil {
		return r.moduleProblem(h, common, err)
	}
	defer code.Release()

	config := GuestConfig{Name: h.name, Settings: []byte("{}"), Limits: limitsOf(r.point.Limits, common.Limits), Log: r.guestLog(h.name)}
	if common.Settings != nil && len(common.Settings.Raw) > 0 {
		config.Settings = common.Settings.Raw
	}
	grants, _ := json.Marshal([]any{common.Capabilities, common.ServiceAccount}) // plain data
	want := fmt.Sprintf("%s %+v %s %s", code.Digest, config.Limits, config.Settings, grants)
	if h.running == want {
		h.failing = ""
		return nil, nil
	}
	if h.failing == want {
		return h.problemNow(), nil
	}
	var inForce []string
	if r.c.Grant != nil {
		config.Capability, inForce = r.c.Grant(common, code.Manifest)
	}
	guest, err := r.point.Start(ctx, o, Code{Code: code.Code, ABI: code.ABI, Manifest: code.Manifest}, config)
	if err != nil {
		return r.startProblem(h, want, err)
	}
	h.swap(guest, code.Digest, "")
	h.started(want, inForce)
	r.c.Events.Event(o, corev1.EventTypeNormal, "PluginStarted", "runs "+code.Digest)
	r.c.Log.Info().Str("kind", r.point.Kind).Str("plugin", h.name).Str("digest", code.Digest).Msg("plugin started")
	return nil, nil
}

// moduleProblem judges why there is no code. With its module gone, nothing runs
// on.
func (r *Runner[T, G]) moduleProblem(h *Handle[T, G], c *pluginsv1.Common, err error) (*problem, error) {
	var p *library.Problem
	if !errors.As(err, &p) {
		return &problem{reasonModuleNotReady, oneLine(err)}, err
	}
	if p.Reason == library.ReasonModuleNotFound {
		var none G
		h.swap(none, "", p.Reason+": "+p.Message)
		h.running, h.failing = "", ""
		return &problem{p.Reason, p.Message}, nil // the library tells when it comes
	}
	prob := &problem{reasonModuleNotReady, fmt.Sprintf("WasmModule %q: %s: %s", c.Module, p.Reason, p.Message)}
	if p.Retry {
		return prob, err
	}
	return prob, nil
}

// ErrABI is wrapped by a Point's Start when the module's ABI is not for the
// point.
var ErrABI = errors.New("unsupported ABI")

// startProblem judges why a guest could not be started.
func (r *Runner[T, G]) startProblem(h *Handle[T, G], want string, err error) (*problem, error) {
	if errors.Is(err, abi.ErrSettings) {
		h.failing = want
		return &problem{reasonInvalidSettings, err.Error()}, nil
	}
	if errors.Is(err, ErrABI) {
		h.failing = want
		return &problem{library.ReasonUnsupportedABI, oneLine(err)}, nil
	}
	var ee *engine.Error
	if !errors.As(err, &ee) {
		h.failing = want
		return &problem{string(engine.BadReply), oneLine(err)}, nil
	}
	if ee.Reason == engine.DeadlineExceeded || ee.Reason == engine.Canceled {
		return &problem{string(ee.Reason), ee.Detail}, err // the machine may have been busy
	}
	h.failing = want
	return &problem{string(ee.Reason), ee.Detail}, nil
}

func oneLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	if len(s) > 1024 {
		s = s[:1024] + "..."
	}
	return s
}

// remove ends a plugin whose object is gone.
func (r *Runner[T, G]) remove(name string) {
	r.mu.Lock()
	h := r.handles[name]
	delete(r.handles, name)
	r.mu.Unlock()
	if h == nil {
		return
	}
	r.publish()
	var none G
	h.swap(none, "", removed)
	r.c.Metrics.forget(r.point.Kind, name)
}

func limitsOf(defaults engine.Limits, l *pluginsv1.Limits) engine.Limits {
	if l == nil {
		return defaults
	}
	if l.TimeoutMillis > 0 {
		defaults.Timeout = time.Duration(l.TimeoutMillis) * time.Millisecond
	}
	if l.MemoryMiB > 0 {
		defaults.Memory = int64(l.MemoryMiB) << 20
	}
	if l.Fuel > 0 {
		defaults.Fuel = l.Fuel
	}
	return defaults
}

// guestLog returns where a plugin's output goes.
func (r *Runner[T, G]) guestLog(name string) func(engine.Level, []byte) {
	log := r.c.Log.With().Str("plugin", name).Logger()
	levels := [...]zerolog.Level{engine.Debug: zerolog.DebugLevel, engine.Notice: zerolog.InfoLevel, engine.Warn: zerolog.WarnLevel, engine.Err: zerolog.ErrorLevel}
	return func(l engine.Level, line []byte) {
		log.WithLevel(levels[l]).Bytes("text", line).Msg("plugin output")
	}
}
