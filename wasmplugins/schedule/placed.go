package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/scheduling/framework"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

const (
	// maxPermit is how long a guest may have a pod wait, defaultPermit how long
	// it waits if the guest does not say.
	maxPermit     = 15 * time.Minute
	defaultPermit = time.Minute
	// maxResolvable is how many nodes a PostFilterRequest names.
	maxResolvable = 500
)

func schedulerName(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
}

// ask is a call of its own, in an instance that is in its first state. take
// must not keep the reply; its error is a bad reply. answered is false if the
// guest has failed and is left out, or was replaced by one without the function.
func (p *nativePlugin) ask(ctx context.Context, f function, pod *corev1.Pod, in []byte, take func(reply []byte) error) (answered bool, err error) {
	err = p.use(ctx, func(g *Guest) (engine.Usage, error) {
		if g.native == nil {
			return engine.Usage{}, errReplaced
		}
		if answered = g.native.exports(f); !answered {
			return engine.Usage{}, nil
		}
		prog, startErr := g.native.with(ctx, nil)
		if startErr != nil {
			return engine.Usage{}, startErr
		}
		return prog.Do(ctx, engine.Call{Seed: string(pod.UID)}, func(i *engine.Instance) error {
			b, exchangeErr := exchange(i, f, in)
			if exchangeErr != nil {
				return exchangeErr
			}
			if takeErr := take(b); takeErr != nil {
				return i.Errorf(engine.BadReply, "%s: %v", functions[f].name, takeErr)
			}
			return nil
		})
	})
	if err != nil {
		return false, p.failed(err)
	}
	return answered, nil
}

// placed asks about a pod that has a node. The reply is nil if the guest has
// failed and is left out.
func (p *nativePlugin) placed(ctx context.Context, f function, pod *framework.PodInfo, node string) (*abi.PlacedReply, error) {
	encoded, err := api.Encode(pod.Pod)
	if err != nil {
		return nil, err
	}
	var r *abi.PlacedReply
	in := abi.AppendPlacedRequest(nil, schedulerName(pod.Pod), node, encoded)
	answered, err := p.ask(ctx, f, pod.Pod, in, func(b []byte) (err error) {
		r, err = abi.ParsePlacedReply(b)
		return err
	})
	if err != nil || !answered {
		return nil, err
	}
	return r, nil
}

// refusal is the error for a reply that does not let a pod pass.
func refusal(r *abi.PlacedReply) error {
	if r == nil || r.Passes() {
		return nil
	}
	return errors.New(cmp.Or(r.Reason, "refused without a reason"))
}

// PostFilter implements framework.PostFilterPlugin.
func (p *nativePlugin) PostFilter(c *framework.Cycle, d *framework.Diagnosis) (node, message string, err error) {
	pod, err := api.Encode(c.Pod.Pod)
	if err != nil {
		return "", "", err
	}
	req := abi.PostFilterRequest{
		APIVersion: abi.Native, SchedulerName: schedulerName(c.Pod.Pod), Pod: pod,
		Message: d.Message(), Plugins: d.Plugins, Resolvable: []string{},
	}
	for _, i := range d.Resolvable() {
		if len(req.Resolvable) == maxResolvable {
			break
		}
		req.Resolvable = append(req.Resolvable, c.Snapshot.Name(i))
	}
	in, err := json.Marshal(req)
	if err != nil {
		return "", "", err
	}
	_, err = p.ask(context.Background(), fnPostFilter, c.Pod.Pod, in, func(b []byte) error {
		r, replyErr := abi.ParsePostFilterReply(b)
		if replyErr != nil {
			return replyErr
		}
		if _, ok := c.Snapshot.Index(r.Node); !ok && r.Node != "" {
			return fmt.Errorf("there is no node %q", r.Node)
		}
		node, message = r.Node, r.Message
		return nil
	})
	return node, message, err
}

// Reserve implements framework.ReservePlugin.
func (p *nativePlugin) Reserve(ctx context.Context, pod *framework.PodInfo, node string) error {
	r, err := p.placed(ctx, fnReserve, pod, node)
	if err != nil {
		return err
	}
	return refusal(r)
}

// Unreserve implements framework.ReservePlugin.
func (p *nativePlugin) Unreserve(ctx context.Context, pod *framework.PodInfo, node string) {
	if g, ok := p.running.Running(); ok && g.native != nil && g.native.exports(fnUnreserve) {
		p.tell(ctx, fnUnreserve, pod, node)
	}
}

// tell hands on what needs no answer: a failure is counted, and is all that
// there is to it.
func (p *nativePlugin) tell(ctx context.Context, f function, pod *framework.PodInfo, node string) {
	encoded, err := api.Encode(pod.Pod)
	if err == nil {
		in := abi.AppendPlacedRequest(nil, schedulerName(pod.Pod), node, encoded)
		_, _ = p.ask(ctx, f, pod.Pod, in, func([]byte) error { return nil })
	}
}

// MaxWait implements framework.PermitPlugin.
func (p *nativePlugin) MaxWait() time.Duration { return maxPermit + time.Second }

// Permit implements framework.PermitPlugin. A pod that waits is asked about
// again and again: what it waits for may be in the API.
func (p *nativePlugin) Permit(ctx context.Context, pod *framework.PodInfo, node string) error {
	var end time.Time
	for {
		r, err := p.placed(ctx, fnPermit, pod, node)
		if err != nil {
			return err
		}
		if refusal(r) == nil {
			return nil
		}
		if r.RetrySeconds == 0 {
			return refusal(r)
		}
		if end.IsZero() {
			wait := time.Duration(r.TimeoutSeconds) * time.Second
			end = time.Now().Add(cmp.Or(wait, defaultPermit))
		}
		wait := min(time.Duration(r.RetrySeconds)*time.Second, time.Until(end))
		if wait <= 0 {
			return fmt.Errorf("not permitted in time: %w", refusal(r))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// PreBind implements framework.PreBindPlugin.
func (p *nativePlugin) PreBind(ctx context.Context, pod *framework.PodInfo, node string) error {
	r, err := p.placed(ctx, fnPreBind, pod, node)
	if err != nil {
		return err
	}
	return refusal(r)
}

// Bind implements framework.BindPlugin.
func (p *nativePlugin) Bind(ctx context.Context, pod *framework.PodInfo, node string) (done bool, err error) {
	r, err := p.placed(ctx, fnBind, pod, node)
	if err != nil || r == nil {
		return false, err
	}
	return r.Done, refusal(r)
}

// PostBind implements framework.PostBindPlugin.
func (p *nativePlugin) PostBind(ctx context.Context, pod *framework.PodInfo, node string) {
	p.tell(ctx, fnPostBind, pod, node)
}

// exports reports whether the guest has the function.
func (g *native) exports(f function) bool {
	_, ok := g.code.Exports[functions[f].name]
	return ok
}
