package wasmplugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
)

// exempt says that plugins have no say in a write: with those of their own
// kinds a cluster is always mended.
func exempt(r *admission.Request) bool { return r.Resource.Group == pluginsv1.GroupName }

// current returns the plugins, once they are known.
func (h *Host) current(ctx context.Context) (*table, error) {
	select {
	case <-h.synced:
		return h.table.Load(), nil
	default:
	}
	t := time.NewTimer(h.c.StartupWait)
	defer t.Stop()
	select {
	case <-h.synced:
		return h.table.Load(), nil
	case <-t.C:
		return nil, apierrors.NewServiceUnavailable("the admission plugins are not loaded yet")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// mutate is the mutating phase.
func (h *Host) mutate(ctx context.Context, r *admission.Request) error {
	if exempt(r) {
		return nil
	}
	t, err := h.current(ctx)
	if err != nil || len(t.mutate) == 0 {
		return err
	}
	chain, err := h.matching(ctx, t.mutate, r)
	if err != nil || len(chain) == 0 {
		return err
	}
	c := call{h: h, r: r, phase: abi.PhaseMutate, deadline: time.Now().Add(h.c.Budget)}
	defer c.free()
	if c.object, err = r.ObjectJSON(); err != nil {
		return err
	}
	if c.old, err = r.OldObjectJSON(); err != nil {
		return err
	}
	if err := c.mutate(ctx, chain); err != nil {
		return err
	}
	if c.changed != nil {
		r.Object = c.changed
		r.Changed()
	}
	return nil
}

// validate is the validating phase.
func (h *Host) validate(ctx context.Context, r *admission.Request) error {
	if exempt(r) {
		return nil
	}
	t, err := h.current(ctx)
	if err != nil || len(t.validate) == 0 {
		return err
	}
	chain, err := h.matching(ctx, t.validate, r)
	if err != nil || len(chain) == 0 {
		return err
	}
	c := call{h: h, r: r, phase: abi.PhaseValidate, deadline: time.Now().Add(h.c.Budget)}
	defer c.free()
	if c.object, err = r.ObjectJSON(); err != nil {
		return err
	}
	if c.old, err = r.OldObjectJSON(); err != nil {
		return err
	}
	for _, b := range chain {
		if _, err := c.ask(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// matching returns the plugins that want to see a request.
func (h *Host) matching(ctx context.Context, all []*binding, r *admission.Request) ([]*binding, error) {
	var chain []*binding
	for _, b := range all {
		ok, err := b.matches(ctx, r, h.namespaceLabels)
		if err != nil {
			return nil, fmt.Errorf("match admission plugin %q: %w", b.name, err)
		}
		if ok {
			chain = append(chain, b)
		}
	}
	return chain, nil
}

// namespaceLabels asks the copy first, and the API for a namespace so new that
// the copy does not have it.
func (h *Host) namespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	if ns, ok := h.namespaces.Get("", name); ok {
		return ns.Labels, nil
	}
	ns, err := h.nsAPI.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil // the write itself will be told
	}
	if err != nil {
		return nil, err
	}
	return ns.Labels, nil
}

// A call is one phase of one request.
type call struct {
	h           *Host
	r           *admission.Request
	phase       string
	deadline    time.Time
	object, old []byte
	options     []byte
	changed     api.Object // what object is decoded, nil if nobody changed it
	buffer      *[]byte
}

// buffers hold requests on their way to guests.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }} //nolint:gochecknoglobals // a pool

func (c *call) free() {
	if c.buffer != nil && cap(*c.buffer) < 1<<20 {
		buffers.Put(c.buffer)
	}
}

// ask has one plugin judge the request. It returns the reply if the plugin
// answered and did not refuse, nil if it failed and that is ignored, and
// otherwise the error for the client.
func (c *call) ask(ctx context.Context, b *binding) (*abi.AdmissionReply, error) {
	begin := time.Now()
	reply, usage, err := c.do(ctx, b)
	b.state.metrics.observe(c.phase, time.Since(begin), usage)
	if err != nil {
		return nil, c.failed(ctx, b, err)
	}
	c.tell(b, reply)
	if !reply.Allowed {
		b.state.metrics.denials.Inc()
		return nil, denial(b.name, reply)
	}
	return reply, nil
}

// do calls the plugin. When it is replaced at this very moment, its successor
// is called.
func (c *call) do(ctx context.Context, b *binding) (*abi.AdmissionReply, engine.Usage, error) {
	for {
		p, why := b.state.get()
		switch {
		case p == nil && why == removed:
			return &abi.AdmissionReply{Allowed: true}, engine.Usage{}, nil
		case p == nil:
			return nil, engine.Usage{}, &engine.Error{Plugin: b.name, Reason: engine.NotReady, Detail: why}
		}
		reply, usage, err := p.Admit(ctx, engine.Call{Seed: c.r.UID, Deadline: c.deadline}, c.phase, c.encode(p.Settings()))
		if errors.Is(err, engine.ErrClosed) {
			if ctx.Err() != nil {
				return nil, usage, ctx.Err()
			}
			continue
		}
		return reply, usage, err
	}
}

// encode makes the guest's input.
func (c *call) encode(settings []byte) []byte {
	if c.buffer == nil {
		c.buffer = buffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool's type
		if c.r.Options != nil {
			c.options, _ = json.Marshal(c.r.Options) // without them if they cannot be encoded
		}
	}
	r := c.r
	gvk := r.Resource.GVK()
	a := abi.AdmissionRequest{
		UID: r.UID, Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		ResourceGroup: r.Resource.Group, ResourceVersion: r.Resource.Version, Resource: r.Resource.Plural,
		SubResource: r.Subresource, Name: r.Name, Namespace: r.Namespace, Operation: string(r.Operation),
		DryRun: r.DryRun, Options: c.options, Object: c.object, OldObject: c.old,
	}
	if s := r.Resource.Subresource(r.Subresource); s != nil && s.Kind != "" {
		a.Group, a.Version, a.Kind = s.Group, s.Version, s.Kind
	}
	if u := r.User; u != nil {
		a.Username, a.UserUID, a.Groups, a.Extra = u.Name, u.UID, u.Groups, u.Extra
	}
	*c.buffer = a.Append((*c.buffer)[:0], c.phase, settings)
	return *c.buffer
}

// Bounds of what a plugin may tell the client and the audit log.
const (
	maxWarnings    = 16
	maxWarning     = 1024
	maxAnnotations = 32
	maxAnnotation  = 4096
)

// tell passes warnings and annotations on.
func (c *call) tell(b *binding, reply *abi.AdmissionReply) {
	for i, w := range reply.Warnings {
		if i == maxWarnings {
			c.r.Warn(fmt.Sprintf("admission plugin %q had %d more warnings", b.name, len(reply.Warnings)-i))
			break
		}
		c.r.Warn(cut(w, maxWarning))
	}
	n := 0
	for k, v := range reply.AuditAnnotations {
		if n++; n > maxAnnotations {
			break
		}
		c.r.Annotate(b.name+"/"+cut(k, 128), cut(v, maxAnnotation))
	}
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}
