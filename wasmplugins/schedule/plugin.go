package schedule

import (
	"context"
	"errors"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/runner"
)

// Running is a SchedulerPlugin and the guest that runs for it.
type Running interface {
	Name() string
	// Object is the latest state of the object.
	Object() *pluginsv1.SchedulerPlugin
	// Running returns the guest, false if none runs.
	Running() (*Guest, bool)
	// Use calls f with the guest. The errors are those of f; an *engine.Error
	// if no guest may be called; any other if there is no plugin any more.
	Use(ctx context.Context, f func(*Guest) (engine.Usage, error)) (engine.Usage, error)
}

const ignore = admissionregistrationv1.Ignore

// base is what the plugins of all ABIs have.
type base struct {
	running Running
	name    string
	points  []framework.Point
	events  framework.Event
}

// Name implements framework.Plugin.
func (b *base) Name() string { return b.name }

// Serves implements framework.PartialPlugin.
func (b *base) Serves(p framework.Point) bool {
	for _, have := range b.points {
		// Score's own PreScore leaves it out if that is to be.
		if have == p || p == framework.PointPreScore && have == framework.PointScore {
			return true
		}
	}
	return false
}

// Events implements framework.EnqueuePlugin.
func (b *base) Events() framework.Event { return b.events }

// Helps implements framework.EnqueuePlugin.
func (b *base) Helps(*framework.PodInfo, framework.Change) bool { return true }

// use calls f with the guest.
func (b *base) use(ctx context.Context, f func(*Guest) (engine.Usage, error)) error {
	_, err := b.running.Use(ctx, f)
	return err
}

// failed says what becomes of a call without an answer: nil to go on without
// the plugin, or what ends the attempt.
func (b *base) failed(err error) error {
	var ee *engine.Error
	if !errors.As(err, &ee) && !errors.Is(err, errReplaced) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return nil // the plugin is being removed
	}
	if b.running.Object().Spec.FailurePolicy == ignore {
		return nil
	}
	if ee != nil {
		return &failure{ee}
	}
	return err
}

// errReplaced ends an attempt during which a module of another ABI has come.
var errReplaced = errors.New("the module was replaced by one of another ABI during the attempt")

// A failure is an engine's error in a message that names the plugin already.
type failure struct{ err *engine.Error }

func (f *failure) Error() string {
	detail := f.err.Detail
	if f.err.Reason == runner.BreakerOpen {
		detail, _, _ = strings.Cut(detail, ";") // how long it takes yet is another text each time
	}
	return string(f.err.Reason) + ": " + detail
}

// Unwrap returns the engine's error.
func (f *failure) Unwrap() error { return f.err }
