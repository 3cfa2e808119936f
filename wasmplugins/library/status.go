package library

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/abi"
)

// Condition types, and the reasons of those that are true.
const (
	ConditionReady    = "Ready"
	ConditionCompiled = "Compiled"
	ConditionVerified = "Verified" // only with trusted keys

	ReasonCompiled = "Compiled"
	ReasonSigned   = "Signed"
)

// defaultHistory is how many earlier versions are kept unless a module says
// otherwise.
const defaultHistory = 3

// writeStatus writes what is known of a module to its object, if that says
// otherwise. It is called for changes on this side only: several servers that
// have the same modules do not correct each other.
func (l *Library) writeStatus(ctx context.Context, name string) error {
	m, ok := l.modules.Get("", name)
	if !ok {
		return nil
	}
	l.mu.Lock()
	known := l.known[name]
	if known == nil || known.uid != m.UID {
		l.mu.Unlock()
		return nil
	}
	have := *known
	l.mu.Unlock()
	want := have.status(&m.Status, len(l.c.Keys) > 0)
	if have.code != nil && have.stored && have.problem == nil {
		want.Versions = withVersion(want.Versions, pluginsv1.ModuleVersion{Digest: have.digest, SizeBytes: have.code.Size, Time: metav1.Now()})
	}
	keep := defaultHistory
	if n := m.Spec.VersionHistoryLimit; n != nil {
		keep = int(*n)
	}
	if len(want.Versions) > keep+1 {
		pinned, err := l.pinned(ctx, name)
		if err != nil {
			return err
		}
		want.Versions = trimmed(want.Versions, want.Digest, keep, pinned)
	}
	if apiequality.Semantic.DeepEqual(&m.Status, want) {
		return nil
	}
	m = m.DeepCopy()
	m.Status = *want
	_, err := l.api.UpdateStatus(ctx, m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// status returns the status of a module, but for its versions, which are as
// before.
func (m *module) status(old *pluginsv1.WasmModuleStatus, keys bool) *pluginsv1.WasmModuleStatus {
	want := old.DeepCopy()
	want.ObservedGeneration, want.Digest = m.generation, m.digest
	want.ABI, want.SizeBytes, want.CompileMillis, want.SignedBy, want.Manifest = "", 0, 0, "", nil
	compiled, ready := truth(ConditionCompiled, ReasonCompiled, m.problem), truth(ConditionReady, ReasonCompiled, m.problem)
	verified := m.verified()
	if s := m.code; s != nil {
		want.ABI, want.SizeBytes, want.Manifest = s.abi, s.Size, moduleManifest(&s.manifest)
		want.CompileMillis = old.CompileMillis // another server may have measured something else
		if want.CompileMillis == 0 || old.Digest != m.digest {
			want.CompileMillis = max(1, s.CompileTime.Milliseconds())
		}
		compiled = truth(ConditionCompiled, ReasonCompiled, nil)
		if len(s.signatures) > 0 {
			want.SignedBy = s.signatures[0].Key
			verified.Message = "signed by the key " + want.SignedBy
		}
	}
	set(&want.Conditions, m.generation, compiled, ready)
	if keys {
		set(&want.Conditions, m.generation, verified)
	} else {
		meta.RemoveStatusCondition(&want.Conditions, ConditionVerified)
	}
	return want
}

// verified is the condition Verified.
func (m *module) verified() metav1.Condition {
	p := m.problem
	switch {
	case m.code != nil, p != nil && (p.Reason == ReasonInvalidModule || p.Reason == ReasonCompileTimeout): // is looked at afterwards
		return truth(ConditionVerified, ReasonSigned, nil)
	case p.Reason == ReasonSignatureMissing || p.Reason == ReasonSignatureInvalid:
		return truth(ConditionVerified, "", p)
	}
	return metav1.Condition{Type: ConditionVerified, Status: metav1.ConditionUnknown, Reason: p.Reason, Message: p.Message}
}

// moduleManifest returns a manifest as the API has it, nil for an empty one.
func moduleManifest(m *abi.Manifest) *pluginsv1.ModuleManifest {
	out := pluginsv1.ModuleManifest{Name: m.Name, Version: m.Version, Points: m.Kinds, Capabilities: m.Capabilities}
	if out.Name == "" && out.Version == "" && len(out.Points) == 0 && len(out.Capabilities) == 0 {
		return nil
	}
	return &out
}

// withVersion adds a version in front, unless it is there.
func withVersion(list []pluginsv1.ModuleVersion, v pluginsv1.ModuleVersion) []pluginsv1.ModuleVersion {
	if slices.ContainsFunc(list, func(o pluginsv1.ModuleVersion) bool { return o.Digest == v.Digest }) {
		return list
	}
	return slices.Insert(list, 0, v)
}

// trimmed returns the current version, the newest of the others, as many as are
// to be kept, and those that are pinned.
func trimmed(list []pluginsv1.ModuleVersion, current string, keep int, pinned map[string]bool) []pluginsv1.ModuleVersion {
	var out []pluginsv1.ModuleVersion
	for _, v := range list {
		switch {
		case v.Digest == current || pinned[v.Digest]:
		case keep > 0:
			keep--
		default:
			continue
		}
		out = append(out, v)
	}
	return out
}

// truth is a condition that is true unless there is a problem.
func truth(kind, reason string, p *Problem) metav1.Condition {
	if p != nil {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: p.Reason, Message: p.Message}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
}

func set(conditions *[]metav1.Condition, generation int64, cs ...metav1.Condition) {
	for _, c := range cs {
		c.ObservedGeneration = generation
		meta.SetStatusCondition(conditions, c)
	}
}
