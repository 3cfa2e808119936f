package reconcile_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/reconcile"
	"github.com/proa-project/proa/wasmplugins/toolchain"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// calls watches what a guest is called for.
type calls struct {
	mu    sync.Mutex // guards the fields below
	now   map[string]int
	total int
	twice []string
}

func (c *calls) grant(*pluginsv1.Common, abi.Manifest) (func(context.Context, string, []byte) ([]byte, error), []string) {
	return func(_ context.Context, _ string, name []byte) ([]byte, error) {
		n := string(name)
		c.mu.Lock()
		c.total++
		if c.now[n]++; c.now[n] > 1 {
			c.twice = append(c.twice, n)
		}
		c.mu.Unlock()
		for range 5 { // a call that lasts, for others to get in
			goruntime.Gosched()
		}
		c.mu.Lock()
		c.now[n]--
		c.mu.Unlock()
		return nil, nil
	}, []string{"called"}
}

// TestChurn changes everything at once: objects, what they own, settings, and
// the module. In the end all is as the last of each says, and no object was
// looked at twice at the same time.
func TestChurn(t *testing.T) {
	seen := &calls{now: map[string]int{}}
	f := newFixture(t, func(c *reconcile.Config) { c.Runner.Grant, c.Workers = seen.grant, 4 })
	wasm := BuildC(t, "testdata/child")
	version := func(n int) []byte {
		b, err := toolchain.WithManifest(wasm, fmt.Appendf(nil, `{"version":"%d"}`, n))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	f.module("m", version(0))
	f.reconciler("m", settings(`{"value":"start"}`))

	const objects, rounds = 20, 8
	name := func(i int) string { return fmt.Sprintf("o%d", i) }
	for i := range objects {
		f.object(name(i), nil)
	}
	ignore := func(err error) {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { // modules
		for n := range rounds {
			m, err := f.modules.Get(t.Context(), "", "m")
			if err != nil {
				t.Error(err)
				return
			}
			m.Spec.Code = version(n)
			_, err = f.modules.Update(t.Context(), m)
			ignore(err)
		}
	})
	wg.Go(func() { // settings
		for n := range rounds {
			r, err := f.reconcilers.Get(t.Context(), "", "m")
			if err != nil {
				t.Error(err)
				return
			}
			r.Spec.Settings = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"value":"%d"}`, n)}
			_, err = f.reconcilers.Update(t.Context(), r)
			ignore(err)
		}
	})
	wg.Go(func() { // what is owned
		for n := range rounds * objects {
			child := name(n%objects) + "-child"
			if n%2 == 0 {
				ignore(f.configMaps.Delete(t.Context(), "default", child, metav1.DeleteOptions{}))
				continue
			}
			cm, err := f.configMaps.Get(t.Context(), "default", child)
			if err != nil {
				ignore(err)
				continue
			}
			cm.Data["value"], cm.Data["theirs"] = "wrong", "kept"
			_, err = f.configMaps.Update(t.Context(), cm)
			ignore(err)
		}
	})
	wg.Go(func() { // objects
		for n := range rounds * objects {
			cm, err := f.configMaps.Get(t.Context(), "default", name(n%objects))
			if err != nil {
				t.Error(err)
				return
			}
			cm.Data = map[string]string{"n": fmt.Sprint(n)}
			_, err = f.configMaps.Update(t.Context(), cm)
			ignore(err)
		}
	})
	wg.Wait()

	f.until("the last settings", func() bool {
		r, err := f.reconcilers.Get(t.Context(), "", "m")
		if err != nil {
			t.Fatal(err)
		}
		settings(`{"value":"end"}`)(&r.Spec)
		_, err = f.reconcilers.Update(t.Context(), r)
		return err == nil
	})
	for i := range objects {
		cm := f.child(name(i)+"-child", func(cm *corev1.ConfigMap) bool { return cm.Data["value"] == "end" })
		if ref := metav1.GetControllerOf(cm); ref == nil || ref.Name != name(i) {
			t.Errorf("%s is controlled by %+v", cm.Name, ref)
		}
	}
	f.status("m", "all is well", func(s *pluginsv1.ReconcilerStatus) bool {
		return s.Objects == objects && s.Failing == 0 && condition(s, "Reconciling", metav1.ConditionTrue, "")
	})
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.twice) > 0 || seen.total < objects {
		t.Errorf("%d calls, twice at once for %v", seen.total, seen.twice)
	}
}
