package library_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/client"
	"github.com/proa-project/proa/storage"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/library"
	"github.com/proa-project/proa/wasmplugins/wasmtest"
)

// versions gives a module one version after the other.
func (f *fixture) versions(name string, inline bool, numbers ...byte) *pluginsv1.WasmModule {
	f.t.Helper()
	var m *pluginsv1.WasmModule
	for _, n := range numbers {
		if inline {
			f.module(name, code(guest(n)))
		} else if err := f.upload(name, guest(n)); err != nil {
			f.t.Fatal(err)
		}
		f.until(fmt.Sprintf("version %d is listed", n), func() bool {
			m = f.wait(name, "Compiled")
			return m.Status.Digest == engine.Digest(guest(n)) && slices.Contains(digestsOf(m), m.Status.Digest)
		})
	}
	return m
}

func guestDigests(numbers ...byte) []string {
	var out []string
	for _, n := range numbers {
		out = append(out, engine.Digest(guest(n)))
	}
	return out
}

func TestVersions(t *testing.T) {
	for _, inline := range []bool{true, false} {
		t.Run(fmt.Sprintf("inline %v", inline), func(t *testing.T) {
			f := newFixture(t, func(c *library.Config) { c.OrphanGrace = 20 * time.Millisecond })
			m := f.versions("a", inline, 1, 2, 3, 4, 5)
			if d := cmp.Diff(guestDigests(5, 4, 3, 2), digestsOf(m)); d != "" {
				t.Error(d)
			}
			f.until("the oldest version cannot be had", func() bool {
				ref, err := f.lib.Get(t.Context(), "a", guestDigests(1)[0])
				if err == nil {
					ref.Release()
				}
				return err != nil
			})
			f.problem("a", guestDigests(1)[0], "VersionNotFound")
			if ref := f.get("a", guestDigests(2)[0]); ref.Digest != guestDigests(2)[0] {
				t.Errorf("got %s", ref.Digest)
			}
			f.until("what nobody can have is removed", func() bool { return !f.stored(guestDigests(1)[0]) })

			// Rollback, as kubectl patch does it.
			patch := fmt.Sprintf(`{"spec":{"code":null,"digest":%q}}`, guestDigests(3)[0])
			if _, err := f.modules.Patch(t.Context(), "", "a", types.MergePatchType, []byte(patch)); err != nil {
				t.Fatal(err)
			}
			m = f.wait("a", "Compiled")
			if d := cmp.Diff(guestDigests(5, 4, 3, 2), digestsOf(m)); d != "" || m.Status.Digest != guestDigests(3)[0] {
				t.Errorf("%s %s", m.Status.Digest, d)
			}
			f.until("the rolled back code is had", func() bool {
				ref, err := f.lib.Get(t.Context(), "a", "")
				if err != nil {
					return false
				}
				defer ref.Release()
				return ref.Digest == guestDigests(3)[0]
			})
			f = f.restart(func(c *library.Config) { c.OrphanGrace = 20 * time.Millisecond })
			for _, d := range append(guestDigests(5, 4, 3, 2), "") {
				f.get("a", d)
			}
			if m = f.wait("a", "Compiled"); len(m.Status.Versions) != 4 {
				t.Errorf("versions %v", digestsOf(m))
			}
		})
	}
}

// stored reports whether there is anything of a digest in the store.
func (f *fixture) stored(digest string) bool {
	f.t.Helper()
	l, err := f.store.List(f.t.Context(), "/proa/wasm/"+strings.TrimPrefix(digest, "sha256:"), storage.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return len(l.Items) > 0
}

func TestRollbackAgainstCode(t *testing.T) {
	f := newFixture(t)
	f.versions("a", true, 1, 2)
	patch := fmt.Sprintf(`{"spec":{"digest":%q}}`, guestDigests(1)[0])
	if _, err := f.modules.Patch(t.Context(), "", "a", types.MergePatchType, []byte(patch)); err == nil || !strings.Contains(err.Error(), "does not match the code") {
		t.Errorf("got %v", err)
	}
}

func TestHistoryLimit(t *testing.T) {
	f := newFixture(t)
	none := int32(0)
	f.module("a", func(s *pluginsv1.WasmModuleSpec) { s.VersionHistoryLimit = &none })
	if d := cmp.Diff(guestDigests(3), digestsOf(f.versions("a", true, 1, 2, 3))); d != "" {
		t.Error(d)
	}
}

// TestPinned: a version that a plugin pins outlives the limit.
func TestPinned(t *testing.T) {
	f := newFixture(t, func(c *library.Config) { c.OrphanGrace = 20 * time.Millisecond })
	one := int32(1)
	f.module("a", func(s *pluginsv1.WasmModuleSpec) { s.VersionHistoryLimit = &one })
	f.versions("a", true, 1)
	plugins := client.For[*pluginsv1.SchedulerPlugin](f.rest)
	_, err := plugins.Create(t.Context(), &pluginsv1.SchedulerPlugin{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       pluginsv1.SchedulerPluginSpec{Common: pluginsv1.Common{Module: "a", Digest: guestDigests(1)[0]}, Points: []pluginsv1.SchedulerPoint{"Filter"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.versions("a", true, 2)
	policies := client.For[*pluginsv1.AdmissionPlugin](f.rest)
	policy := &pluginsv1.AdmissionPlugin{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	policy.Spec.Module = "a"
	policy.Spec.Phases = []pluginsv1.Phase{pluginsv1.PhaseValidate}
	policy.Spec.Rules = []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}
	policy.Spec.Candidate = &pluginsv1.Candidate{Digest: guestDigests(2)[0]}
	if _, err := policies.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(guestDigests(5, 4, 2, 1), digestsOf(f.versions("a", true, 3, 4, 5))); d != "" {
		t.Error(d)
	}
	f.until("what nobody can have is removed", func() bool { return !f.stored(guestDigests(3)[0]) })
	f.get("a", guestDigests(1)[0])
	f.get("a", guestDigests(2)[0])
	if err := plugins.Delete(t.Context(), "", "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(guestDigests(6, 5, 2), digestsOf(f.versions("a", true, 6))); d != "" {
		t.Error(d)
	}
}

// TestRecent: an earlier version that is asked for often is not loaded each time.
func TestRecent(t *testing.T) {
	f := newFixture(t)
	f.versions("a", true, 1, 2)
	first := f.get("a", guestDigests(1)[0])
	first.Release()
	again := f.get("a", guestDigests(1)[0])
	again.Release()
	if first.Code != again.Code {
		t.Error("the version was loaded twice")
	}
}

// TestBadVersion: code that cannot be run is no version, and evicts none.
func TestBadVersion(t *testing.T) {
	f := newFixture(t)
	f.versions("a", true, 1)
	f.module("a", code([]byte("\x00asm\x01\x00\x00\x00\xff")))
	m := f.wait("a", "InvalidModule")
	if d := cmp.Diff(guestDigests(1), digestsOf(m)); d != "" || m.Status.SizeBytes != 0 || m.Status.ABI != "" {
		t.Errorf("%s %+v", d, m.Status)
	}
	f.problem("a", "", "InvalidModule")
	f.get("a", guestDigests(1)[0])
}

// TestSharedCode: two modules with the same bytes are compiled once.
func TestSharedCode(t *testing.T) {
	f := newFixture(t)
	f.module("a", code(guest(7)))
	f.module("b", code(guest(7)))
	f.wait("a", "Compiled")
	f.wait("b", "Compiled")
	a, b := f.get("a", ""), f.get("b", "")
	if a.Code != b.Code {
		t.Error("the code was compiled twice")
	}
	for _, name := range []string{"a", "b"} {
		if err := f.modules.Delete(t.Context(), "", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.until("the modules are gone", func() bool {
		for _, name := range []string{"a", "b"} {
			if ref, err := f.lib.Get(t.Context(), name, ""); err == nil {
				ref.Release()
				return false
			}
		}
		return true
	})
	a.Release()
	a.Release()
	if b.Size != int64(len(guest(7))) {
		t.Error("the code of a user is gone")
	}
}

func TestSignatures(t *testing.T) {
	first, second, stranger := newEd25519(t, "first"), newECDSA(t, "second"), newEd25519(t, "stranger")
	trusted := func(c *library.Config) { c.Keys = []library.Key{first.key, second.key} }
	f := newFixture(t, trusted)
	sign := func(n byte, key string, s signer) func(*pluginsv1.WasmModuleSpec) {
		return func(spec *pluginsv1.WasmModuleSpec) {
			spec.Code, spec.Digest = guest(n), ""
			spec.Signatures = []pluginsv1.ModuleSignature{{Key: key, Signature: s.sign(guest(n))}}
		}
	}
	condition := func(m *pluginsv1.WasmModule, want metav1.ConditionStatus) {
		t.Helper()
		if !meta.IsStatusConditionPresentAndEqual(m.Status.Conditions, "Verified", want) {
			t.Errorf("conditions %+v, want Verified %s", m.Status.Conditions, want)
		}
	}
	f.module("a", code(guest(1)))
	condition(f.wait("a", "SignatureMissing"), metav1.ConditionFalse)
	f.problem("a", "", "SignatureMissing")
	f.module("a", sign(1, "", stranger))
	condition(f.wait("a", "SignatureInvalid"), metav1.ConditionFalse)
	f.module("a", sign(1, "second", first)) // the key that it names is another
	f.wait("a", "SignatureInvalid")
	f.module("a", sign(1, "first", first))
	m := f.wait("a", "Compiled")
	condition(m, metav1.ConditionTrue)
	if m.Status.SignedBy != "first" {
		t.Errorf("signed by %q", m.Status.SignedBy)
	}
	f.module("a", sign(2, "", second))
	if m = f.wait("a", "Compiled"); m.Status.SignedBy != "second" {
		t.Errorf("signed by %q", m.Status.SignedBy)
	}
	f.until("both versions are listed", func() bool { return len(f.wait("a", "Compiled").Status.Versions) == 2 })

	// An earlier version is verified by the signature that was kept with it.
	f.get("a", guestDigests(1)[0]).Release()
	f.module("a", func(s *pluginsv1.WasmModuleSpec) { s.Code, s.Digest = nil, guestDigests(1)[0] })
	if m = f.wait("a", "Compiled"); m.Status.SignedBy != "first" || m.Status.Digest != guestDigests(1)[0] {
		t.Errorf("signed by %q: %s", m.Status.SignedBy, m.Status.Digest)
	}
	f = f.restart(func(c *library.Config) { c.Keys = []library.Key{second.key} })
	f.wait("a", "SignatureInvalid")
	f.problem("a", "", "SignatureInvalid")
	f.get("a", guestDigests(2)[0])
	f = f.restart()
	if m = f.wait("a", "Compiled"); meta.FindStatusCondition(m.Status.Conditions, "Verified") != nil {
		t.Errorf("conditions %+v", m.Status.Conditions)
	}
}

// TestSignedBeforeKeys: signatures that nobody asked for yet are kept, too.
func TestSignedBeforeKeys(t *testing.T) {
	key := newEd25519(t, "k")
	f := newFixture(t)
	for n := byte(1); n < 3; n++ {
		f.module("a", func(s *pluginsv1.WasmModuleSpec) {
			s.Code, s.Digest = guest(n), ""
			s.Signatures = []pluginsv1.ModuleSignature{{Key: "old-name", Signature: key.sign(guest(n))}}
		})
		f.until("the version is listed", func() bool { return len(f.wait("a", "Compiled").Status.Versions) == int(n) })
	}
	f = f.restart(func(c *library.Config) { c.Keys = []library.Key{key.key} })
	f.wait("a", "Compiled")
	f.get("a", guestDigests(1)[0])
}

func TestUploadSigned(t *testing.T) {
	key := newECDSA(t, "k")
	f := newFixture(t, func(c *library.Config) { c.Keys = []library.Key{key.key} })
	if err := f.upload("a", guest(1), "signature", "no base64!"); err == nil || !strings.Contains(err.Error(), "base64") {
		t.Errorf("got %v", err)
	}
	for n := byte(1); n < 3; n++ {
		if err := f.upload("a", guest(n), "signature", base64.StdEncoding.EncodeToString(key.sign(guest(n))), "key", "k"); err != nil {
			t.Fatal(err)
		}
		if m := f.wait("a", "Compiled"); m.Status.SignedBy != "k" || m.Status.Digest != guestDigests(n)[0] {
			t.Errorf("%+v", m.Status)
		}
	}
}

// TestCorruptChunk: content that has changed in the store is never run, and an
// upload mends it.
func TestCorruptChunk(t *testing.T) {
	f := newFixture(t)
	f.versions("a", false, 1)
	f.stop()
	key := "/proa/wasm/" + strings.TrimPrefix(guestDigests(1)[0], "sha256:") + "/00000"
	item, err := f.store.Get(t.Context(), key, storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Update(t.Context(), key, bytes.Replace(item.Value, []byte("allowed"), []byte("alIowed"), 1), item.Revision, 0); err != nil {
		t.Fatal(err)
	}
	f = startFixture(t, f.store)
	f.wait("a", "ContentCorrupt")
	if _, err := f.download("a", ""); err == nil || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("got %v", err)
	}
	f.problem("a", "", "ContentCorrupt")
	if err := f.upload("a", guest(1)); err != nil {
		t.Fatal(err)
	}
	f.wait("a", "Compiled")
	f.get("a", "")

	f.stop()
	if item, err = f.store.Get(t.Context(), key, storage.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Delete(t.Context(), key, item.Revision); err != nil {
		t.Fatal(err)
	}
	f = startFixture(t, f.store)
	f.wait("a", "ContentMissing")
}

// download reads a module's content.
func (f *fixture) download(name, digest string) ([]byte, error) {
	f.t.Helper()
	q := client.Request{Path: contentPath(name), Accept: "*/*"}
	if digest != "" {
		q.Query = map[string][]string{"digest": {digest}}
	}
	resp, err := f.rest.Do(f.t.Context(), q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func TestContent(t *testing.T) {
	f := newFixture(t)
	f.versions("a", true, 1)
	f.versions("b", false, 1, 2)
	for _, tc := range []struct {
		name, digest string
		want         []byte
	}{
		{"a", "", guest(1)},
		{"b", "", guest(2)},
		{"b", guestDigests(1)[0], guest(1)},
		{"a", guestDigests(1)[0], guest(1)},
		{"a", guestDigests(2)[0], nil},
		{"none", "", nil},
	} {
		got, err := f.download(tc.name, tc.digest)
		if !bytes.Equal(got, tc.want) || (err == nil) != (tc.want != nil) {
			t.Errorf("%s %s: %d bytes, %v", tc.name, tc.digest, len(got), err)
		}
	}
	if err := f.upload("a", guest(3)); err == nil || !strings.Contains(err.Error(), "spec.code") {
		t.Errorf("got %v", err)
	}
	for query, want := range map[string]string{"digest": "has the digest"} {
		if err := f.upload("b", guest(3), query, guestDigests(4)[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
	if err := f.upload("b", []byte("no module")); err == nil || !strings.Contains(err.Error(), "no WebAssembly module") {
		t.Errorf("got %v", err)
	}
	if err := f.upload("b", make([]byte, 16<<20+1)); err == nil || !strings.Contains(err.Error(), "larger than the limit") {
		t.Errorf("got %v", err)
	}
	if err := f.upload("b", guest(3), "dryRun", "All"); err != nil {
		t.Error(err)
	}
	if m := f.wait("b", "Compiled"); m.Spec.Digest != guestDigests(2)[0] {
		t.Error("a dry run changes the module")
	}
}

// sized is a guest of n bytes.
func sized(n int) []byte {
	with := func(pad int) []byte {
		m := &wasmtest.Module{}
		wasmtest.Admission(m, "")
		m.Custom("padding", make([]byte, pad))
		return m.Bytes()
	}
	return with(n - len(with(n)) + n)
}

// TestLargeUpload: 16 MiB go through, in chunks.
func TestLargeUpload(t *testing.T) {
	f := newFixture(t)
	m := sized(16 << 20)
	if err := f.upload("a", m); err != nil {
		t.Fatal(err)
	}
	if s := f.wait("a", "Compiled"); s.Status.SizeBytes != 16<<20 {
		t.Errorf("%d bytes", s.Status.SizeBytes)
	}
	got, err := f.download("a", "")
	if err != nil || !bytes.Equal(got, m) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
