package wasmplugins_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// stamp is a guest that puts its version on objects, and refuses those that do
// not have it: a write that meets two versions is refused.
func stamp(version byte) []byte {
	m := &Module{}
	patch := fmt.Sprintf(`{"allowed":true,"patch":[{"op":"add","path":"/metadata/labels/version","value":"v%c"}]}`, version)
	refusal := fmt.Sprintf(`{"allowed":false,"status":{"message":"this is version %c"}}`, version)
	Admission(m, patch)
	const refusalAt = 2048
	m.Data(refusalAt, []byte(refusal))
	load64 := Op(0x29, 0, 0)
	load8 := func(offset byte) []byte { return Op(0x2d, 0, offset) }
	// {"apiVersion":"proa/v1","phase":"mutate" or "validate": the byte at 33
	// tells them apart.
	const phaseAt = 33
	var needle int64
	for i, c := range []byte(`rsion":"`) {
		needle |= int64(c) << (8 * i)
	}
	m.Func("proa_admit", []byte{I32, I32}, []byte{I64}, []byte{I32},
		Get(0), load8(phaseAt), Const32('m'), Op(0x46), If(Reply(ReplyAt, uint32(len(patch))), Return),
		Get(0), Const32(40), Add32, Set(0), // past the apiVersion of the request
		Get(0), Get(1), Add32, Const32(60), Sub32, Set(2),
		Block(Loop(
			Get(0), Get(2), Op(0x4b), BrIf(1),
			Get(0), load64, Const64(needle), Op(0x51),
			Get(0), load8(8), Const32('v'), Op(0x46), Op(0x71),
			Get(0), load8(9), Const32(int32(version)), Op(0x46), Op(0x71),
			If(Const64(0), Return),
			Get(0), Const32(1), Add32, Set(0), Br(0))),
		Reply(refusalAt, uint32(len(refusal))))
	return m.Bytes()
}

// TestChaos replaces, rolls back, deletes and corrupts a plugin and its module
// under load: no write meets two versions, and none is lost, by which is meant
// that it is stored or refused for what it met.
func TestChaos(t *testing.T) {
	f := newFixture(t)
	versions := [][]byte{stamp('a'), stamp('b'), stamp('c')}
	f.upload("p", versions[0])
	both := func(p *pluginsv1.AdmissionPlugin) {
		p.Spec.Phases = []pluginsv1.Phase{pluginsv1.PhaseMutate, pluginsv1.PhaseValidate}
		ignoring(p)
	}
	f.plugin("p", metav1.ConditionTrue, both)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var writes atomic.Int64
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				cm, err := f.create(map[string]string{"x": "y"})
				if err != nil {
					t.Errorf("a write is lost: %v", err)
					return
				}
				if v := cm.Labels["version"]; v != "" && v != "va" && v != "vb" && v != "vc" {
					t.Errorf("version %q", v)
				}
				writes.Add(1)
			}
		})
	}
	enough := func(n int64) {
		t.Helper()
		from := writes.Load()
		f.until("writes go on", func() bool { return writes.Load() >= from+n || t.Failed() })
	}
	digests := func(n int) string {
		m, err := f.modules.Get(ctx, "", "p")
		if err != nil || len(m.Status.Versions) <= n {
			return ""
		}
		return m.Status.Versions[n].Digest
	}
	deadline := time.Now().Add(5 * time.Second)
	for n := 0; time.Now().Before(deadline) && !t.Failed(); n++ {
		switch n % 6 {
		case 0, 1:
			f.upload("p", versions[(n+1)%3])
		case 2: // back to an earlier version
			if d := digests(1); d != "" {
				f.patchModule("p", fmt.Sprintf(`{"spec":{"digest":%q}}`, d))
			}
		case 3: // a version that is none
			f.upload("p", append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Repeat([]byte("corrupt "), n+1)...))
		case 4:
			if err := f.plugins.Delete(ctx, "", "p", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			enough(5)
			f.upload("p", versions[n%3])
			f.plugin("p", metav1.ConditionTrue, both)
		case 5: // settings make a new guest of the same version
			f.change("p", func(p *pluginsv1.AdmissionPlugin) { p.Spec.Order++ })
		}
		enough(20)
	}
	cancel()
	wg.Wait()
	t.Logf("%d writes", writes.Load())
}

// patchModule merges into a module's object.
func (f *fixture) patchModule(name, patch string) {
	f.t.Helper()
	if _, err := f.modules.Patch(f.t.Context(), "", name, types.MergePatchType, []byte(patch)); err != nil {
		f.t.Fatal(err)
	}
}
