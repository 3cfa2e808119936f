package library

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// Reasons of problems, which are those of conditions, too.
const (
	ReasonNoContent        = "NoContent"        // nothing says where the code is
	ReasonContentMissing   = "ContentMissing"   // the bytes are not in the store
	ReasonContentCorrupt   = "ContentCorrupt"   // the store's bytes have another digest
	ReasonDigestMismatch   = "DigestMismatch"   // what was found is not what spec.digest pins
	ReasonPulling          = "Pulling"          // the image is yet to be pulled
	ReasonPullFailed       = "PullFailed"       // the image cannot be pulled
	ReasonSignatureMissing = "SignatureMissing" // a trusted key is wanted and there is no signature
	ReasonSignatureInvalid = "SignatureInvalid" // no signature is by a trusted key
	ReasonCompileTimeout   = "CompileTimeout"   // compiling takes too long
	ReasonInvalidModule    = "InvalidModule"    // the bytes are no module that can be run
	ReasonUnsupportedABI   = "UnsupportedABI"   // the module is for a host that is not known
	ReasonModuleNotFound   = "ModuleNotFound"   // there is no such WasmModule
	ReasonModuleNotReady   = "ModuleNotReady"   // the module is being loaded
	ReasonVersionNotFound  = "VersionNotFound"  // the digest is none of the module's versions
	ReasonUnavailable      = "Unavailable"      // the store or the API does not answer
)

// A Problem is why code cannot be had. Its text names the module only if there
// is none of that name.
type Problem struct { //nolint:errname // it is part of a state more often than an error
	Reason, Message string
	// Retry says that asking again after a while may help, though no
	// subscriber is told of anything. Without it, subscribers are told when
	// something has changed.
	Retry bool

	final bool // only a change of the object helps
	cause error
}

func (p *Problem) Error() string { return p.Reason + ": " + p.Message }

// Unwrap returns what has caused the problem, or nil.
func (p *Problem) Unwrap() error { return p.cause }

func problemf(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// finally says that only a change of the object helps.
func (p *Problem) finally() *Problem {
	p.final = true
	return p
}

// A shared is compiled code that all modules and plugins with the same digest
// use.
type shared struct {
	*engine.Code
	abi      string
	manifest abi.Manifest
	// signatures are those by trusted keys, with the keys' names.
	signatures []pluginsv1.ModuleSignature
	unfit      *Problem // why it cannot be run though it was compiled
	users      int      // guarded by Library.mu
}

// A Ref is a use of a module's code. It must be released.
type Ref struct {
	*engine.Code
	// Module is the name of the WasmModule, ABI one of package abi's.
	Module, ABI string
	Manifest    abi.Manifest

	release func()
}

// Release ends the use. It may be called more than once; nothing may run the
// code afterwards.
func (r *Ref) Release() { r.release() }

// Get returns a module's code: of the version with the digest, or the current
// one for "". It does not wait for one that is being loaded, but loads earlier
// versions from the store. The caller releases what it gets. The error is a
// *Problem, or that of ctx.
func (l *Library) Get(ctx context.Context, name, digest string) (*Ref, error) {
	l.mu.Lock()
	m := l.known[name]
	if m != nil && m.code != nil && m.problem == nil && (digest == "" || digest == m.digest) {
		s := m.code
		s.users++
		l.mu.Unlock()
		return l.ref(name, s), nil
	}
	problem := m.whyNot(name, digest)
	l.mu.Unlock()
	if m == nil {
		if _, ok := l.modules.Get("", name); ok {
			problem = problemf(ReasonModuleNotReady, "is being loaded")
		}
	}
	if problem != nil {
		return nil, problem
	}
	return l.getVersion(ctx, name, digest)
}

// getVersion loads a version that is not the current one.
func (l *Library) getVersion(ctx context.Context, name, digest string) (*Ref, error) {
	var signatures []pluginsv1.ModuleSignature
	if m, ok := l.modules.Get("", name); ok {
		signatures = m.Spec.Signatures
	}
	s, problem := l.acquire(ctx, name, digest, signatures, nil)
	if ctx.Err() != nil {
		if problem == nil {
			l.release(s)
		}
		return nil, ctx.Err()
	}
	if problem == nil && s.unfit != nil {
		problem = s.unfit
		l.release(s)
	}
	if problem != nil {
		p := *problem
		p.Message = fmt.Sprintf("version %s: %s", digest, p.Message)
		p.Retry = !p.final
		return nil, &p
	}
	l.remember(s)
	return l.ref(name, s), nil
}

// maxRecent is how many earlier versions are kept compiled though nobody has a
// Ref. A plugin that pins one asks for it at each change of an object.
const maxRecent = 8

// A recent is an earlier version that was asked for.
type recent struct {
	code *shared // one use is ours
	used bool    // since the last time that forgetOld looked
}

func (l *Library) remember(s *shared) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.recent {
		if l.recent[i].code == s {
			l.recent[i].used = true
			return
		}
	}
	if len(l.recent) < maxRecent {
		s.users++
		l.recent = append(l.recent, recent{s, true})
	}
}

// forgetOld lets go of earlier versions that were not asked for since the last
// time, or of all.
func (l *Library) forgetOld(all bool) {
	l.mu.Lock()
	var keep []recent
	var gone []*shared
	for _, r := range l.recent {
		if r.used && !all {
			keep = append(keep, recent{r.code, false})
		} else {
			gone = append(gone, r.code)
		}
	}
	l.recent = keep
	l.mu.Unlock()
	for _, s := range gone {
		l.release(s)
	}
}

func (l *Library) ref(name string, s *shared) *Ref {
	done := false // guarded by Library.mu
	return &Ref{Code: s.Code, Module: name, ABI: s.abi, Manifest: s.manifest, release: func() {
		l.mu.Lock()
		again := done
		done = true
		l.mu.Unlock()
		if !again {
			l.release(s)
		}
	}}
}

// acquire returns the code of a digest, which the caller releases. It takes
// bytes if there are any, and what is stored otherwise; signatures are beside
// those that are stored.
func (l *Library) acquire(ctx context.Context, name, digest string, signatures []pluginsv1.ModuleSignature, wasm []byte) (*shared, *Problem) {
	for {
		l.mu.Lock()
		if s := l.shared[digest]; s != nil {
			s.users++
			l.mu.Unlock()
			return s, nil
		}
		busy := l.loading[digest]
		if busy == nil {
			busy = make(chan struct{})
			l.loading[digest] = busy
			l.mu.Unlock()
			s, problem := l.load(ctx, name, digest, signatures, wasm)
			l.mu.Lock()
			delete(l.loading, digest)
			if s != nil {
				s.users = 1
				l.shared[digest] = s
			}
			l.mu.Unlock()
			close(busy)
			return s, problem
		}
		l.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, &Problem{Reason: ReasonUnavailable, Message: ctx.Err().Error(), cause: ctx.Err()}
		}
	}
}

// release ends one use of code, which may be nil.
func (l *Library) release(s *shared) {
	if s == nil {
		return
	}
	l.mu.Lock()
	s.users--
	last := s.users == 0
	if last {
		delete(l.shared, s.Digest)
	}
	l.mu.Unlock()
	if last {
		s.Close()
	}
}

// load reads, verifies and compiles code.
func (l *Library) load(ctx context.Context, name, digest string, signatures []pluginsv1.ModuleSignature, wasm []byte) (*shared, *Problem) {
	stored, err := l.chunks.signatures(ctx, digest)
	if err == nil && wasm == nil {
		wasm, err = l.chunks.read(ctx, digest)
	}
	if err != nil {
		return nil, contentProblem(err)
	}
	valid, problem := verify(l.c.Keys, append(slices.Clip(signatures), stored...), wasm)
	if problem != nil {
		return nil, problem
	}
	code, err := l.c.Engine.Load(ctx, wasm)
	if err != nil {
		return nil, compileProblem(err)
	}
	s := &shared{Code: code, abi: abi.Detect(code.Exports, code.Imports, code.Sections), signatures: valid}
	if s.manifest, err = abi.ParseManifest(code.Sections[abi.ManifestSection]); err != nil {
		s.unfit = problemf(ReasonInvalidModule, "%v", err).finally()
	} else if s.abi == abi.Unknown {
		s.unfit = problemf(ReasonUnsupportedABI, "the module's exports and imports are of no ABI that is known").finally()
	} else if s.manifest.Capabilities == nil {
		s.manifest.Capabilities = abi.Wants(s.abi, code.Sections)
	}
	l.metrics.compiled(name, code)
	l.c.Log.Info().Str("module", name).Str("digest", digest).Dur("took_ms", code.CompileTime).Bool("cached", code.CacheHit).Msg("plugin code loaded")
	return s, nil
}

// contentProblem judges an error of the chunk store.
func contentProblem(err error) *Problem {
	p := &Problem{Reason: ReasonUnavailable, Message: err.Error(), cause: err}
	switch {
	case errors.Is(err, errNoContent):
		p.Reason = ReasonContentMissing
	case errors.Is(err, errCorrupt):
		p.Reason = ReasonContentCorrupt
	}
	return p
}

// compileProblem judges an error of the engine. A compilation that took too
// long may have met a busy machine.
func compileProblem(err error) *Problem {
	p := &Problem{Reason: ReasonInvalidModule, Message: oneLine(err), cause: err}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		p.Reason = ReasonCompileTimeout
	case errors.Is(err, engine.ErrInvalid):
		p.final = true
	default:
		p.Reason = ReasonUnavailable
	}
	return p
}

// maxMessage is the longest text of a problem with a module, in bytes.
const maxMessage = 1024

// oneLine makes one line of an error, without what hides the cause.
func oneLine(err error) string {
	s := strings.TrimPrefix(err.Error(), engine.ErrInvalid.Error()+": ")
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "")
	}
	return s
}
