package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/proa-project/proa/wasmplugins/engine"
	. "github.com/proa-project/proa/wasmplugins/wasmtest"
)

// TestSlowHostCall shows that a host call has what is left of the guest's time,
// that the guest ends with it even if the answer still comes, and that what a
// capability denies is told in its own words.
func TestSlowHostCall(t *testing.T) {
	e := newEngine(t, engine.Config{})
	m := &Module{}
	ask := m.Import("proa", "call", []byte{I32, I32, I32, I32}, []byte{I32})
	m.Memory(1, 0)
	m.Data(0, []byte("slow"))
	m.Func("run", nil, []byte{I32}, nil, Const32(0), Const32(4), Const32(0), Const32(0), Call(ask))
	var answer func(ctx context.Context) ([]byte, error)
	p := start(t, e, m.Bytes(), engine.ProgramConfig{
		Name: "p", Exports: []string{"run"}, Limits: engine.Limits{Timeout: 20 * time.Millisecond},
		Capability: func(ctx context.Context, _ string, _ []byte) ([]byte, error) { return answer(ctx) },
	})
	wait := func(ctx context.Context) ([]byte, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, tc := range map[string]struct {
		answer func(ctx context.Context) ([]byte, error)
		reason engine.Reason
		detail string
	}{
		"gives up":     {wait, engine.DeadlineExceeded, "ran longer than 20ms"},
		"answers late": {func(ctx context.Context) ([]byte, error) { _, _ = wait(ctx); return []byte("x"), nil }, engine.DeadlineExceeded, "ran longer than 20ms"},
		"denies": {func(context.Context) ([]byte, error) {
			return nil, &engine.Error{Reason: engine.CapabilityDenied, Detail: "not for you"}
		}, engine.CapabilityDenied, "not for you"},
		"answers":       {func(context.Context) ([]byte, error) { return []byte("x"), nil }, "", ""},
		"cannot answer": {func(context.Context) ([]byte, error) { return nil, context.Canceled }, "", ""},
	} {
		answer = tc.answer
		_, usage, err := call(p)
		if engine.ReasonOf(err) != tc.reason || err != nil && !strings.HasSuffix(err.Error(), string(tc.reason)+": "+tc.detail) {
			t.Errorf("%s: %v, want %s: %s", name, err, tc.reason, tc.detail)
		}
		if len(usage.HostCalls) != 1 {
			t.Errorf("%s: host calls %q", name, usage.HostCalls)
		}
	}
	// A request that ends first ends the guest, too.
	ctx, cancel := context.WithCancel(t.Context())
	answer = func(ctx context.Context) ([]byte, error) { cancel(); return wait(ctx) }
	_, err := p.Do(ctx, engine.Call{}, func(i *engine.Instance) error { _, err := i.Call(0); return err })
	if engine.ReasonOf(err) != engine.Canceled {
		t.Errorf("%v, want Canceled", err)
	}
}
