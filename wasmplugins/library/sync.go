package library

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// A module is what was found for one WasmModule. It is not changed but under
// Library.mu.
type module struct {
	uid        types.UID
	generation int64
	digest     string // of the code that the object wants, "" if that is not known
	code       *shared
	problem    *Problem
	stored     bool     // the bytes are in the store
	versions   []string // earlier digests that may be had
}

// settled reports whether there is nothing to do for the object any more.
func (m *module) settled() bool {
	if m.problem != nil && m.problem.final {
		return true
	}
	return m.code != nil && m.stored
}

// whyNot returns why a version of a module cannot be had, or nil if it has to be
// loaded from the store. A nil module is one that is not there.
func (m *module) whyNot(name, digest string) *Problem {
	switch {
	case m == nil:
		return problemf(ReasonModuleNotFound, "there is no WasmModule %q", name)
	case digest == "" || digest == m.digest:
		return &Problem{Reason: m.problem.Reason, Message: m.problem.Message, cause: m.problem.cause}
	case !slices.Contains(m.versions, digest):
		return problemf(ReasonVersionNotFound, "there is no version %s", digest)
	}
	return nil
}

// sync brings one module to what its object says. An error means that it is
// worth trying again.
func (l *Library) sync(ctx context.Context, name string, pull bool) error {
	m, ok := l.modules.Get("", name)
	if !ok {
		return l.forget(ctx, name)
	}
	if l.unchanged(m) {
		return nil
	}
	next := &module{uid: m.UID, generation: m.Generation, versions: digests(m.Status.Versions)}
	err := l.find(ctx, m, next, pull)
	if ctx.Err() != nil {
		l.release(next.code)
		return ctx.Err()
	}
	l.set(name, next)
	l.status.Add(name)
	return err
}

// forget lets go of a module that is gone.
func (l *Library) forget(ctx context.Context, name string) error {
	l.mu.Lock()
	var uid types.UID
	if have := l.known[name]; have != nil {
		uid = have.uid
	}
	l.mu.Unlock()
	l.set(name, nil)
	l.metrics.forget(name)
	return l.chunks.forgetPull(ctx, name, uid)
}

// unchanged reports whether what is known fits the object. It takes over a new
// list of versions.
func (l *Library) unchanged(m *pluginsv1.WasmModule) bool {
	versions := digests(m.Status.Versions)
	l.mu.Lock()
	have := l.known[m.Name]
	if have == nil || have.uid != m.UID || have.generation != m.Generation || !have.settled() {
		l.mu.Unlock()
		return false
	}
	changed := !slices.Equal(have.versions, versions)
	have.versions = versions
	l.mu.Unlock()
	if changed {
		l.tell(m.Name)
	}
	return true
}

func digests(list []pluginsv1.ModuleVersion) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.Digest
	}
	return out
}

// find fills in the code, or the problem, of what the object wants.
func (l *Library) find(ctx context.Context, m *pluginsv1.WasmModule, next *module, pull bool) error {
	wasm, problem := l.fetch(ctx, m, next, pull)
	if problem == nil {
		next.code, problem = l.acquire(ctx, m.Name, next.digest, m.Spec.Signatures, wasm)
	}
	if problem != nil {
		next.problem = problem
		if problem.final {
			return nil
		}
		return problem
	}
	next.problem = next.code.unfit
	l.metrics.size(m.Name, next.code.Size)
	signatures := next.code.signatures
	if len(l.c.Keys) == 0 { // whoever names keys later will want them
		signatures = m.Spec.Signatures
	}
	if err := l.chunks.keep(ctx, next.digest, wasm, signatures); err != nil {
		return err // the code can be used meanwhile
	}
	if m.Spec.Image != nil && m.Spec.Digest == "" {
		if err := l.chunks.recordPull(ctx, m, next.digest); err != nil {
			return err
		}
	}
	next.stored = true
	return nil
}

// fetch finds out which digest the object wants, and returns the bytes if they
// are not in the store already.
func (l *Library) fetch(ctx context.Context, m *pluginsv1.WasmModule, next *module, pull bool) ([]byte, *Problem) {
	if m.Spec.Image == nil {
		if err := l.chunks.forgetPull(ctx, m.Name, m.UID); err != nil {
			return nil, contentProblem(err)
		}
	}
	switch spec := &m.Spec; {
	case len(spec.Code) > 0:
		next.digest = engine.Digest(spec.Code)
		if spec.Digest != "" && spec.Digest != next.digest { // refused by the API, but stored objects may be older
			return nil, problemf(ReasonDigestMismatch, "spec.code has the digest %s, not %s", next.digest, spec.Digest).finally()
		}
		return spec.Code, nil
	case spec.Image != nil:
		return l.fetchImage(ctx, m, next, pull)
	case spec.Digest != "":
		next.digest = spec.Digest
		return nil, nil
	}
	return nil, problemf(ReasonNoContent, "spec has neither code nor image, and nothing was uploaded to the content subresource").finally()
}

// set takes a module's new state; nil forgets it.
func (l *Library) set(name string, next *module) {
	l.mu.Lock()
	old := l.known[name]
	if next == nil {
		delete(l.known, name)
	} else {
		l.known[name] = next
	}
	l.mu.Unlock()
	if old != nil {
		l.release(old.code)
	}
	if next != nil || old != nil {
		l.tell(name)
	}
}
