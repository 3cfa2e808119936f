package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission"
)

// A call is one phase of one write.
type call struct {
	c        *Chain
	r        *admission.Request
	s        *session
	began    time.Time
	policies []Policy
	in       Input
	before   []byte     // the object when the phase began
	changed  api.Object // what in.Object is decoded; nil if nobody changed it
	trace    *trace
}

// end closes a phase.
func (c *call) end(err error) error {
	took := time.Since(c.began)
	c.s.left = max(0, c.s.left-took)
	c.trace.end(c.r, took, err)
	return err
}

// validate asks one policy after the other, up to the first refusal.
func (c *call) validate(ctx context.Context) error {
	for _, p := range c.policies {
		if _, _, err := c.ask(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// ask has one policy judge the write. The error is for the client. A verdict is
// returned if the object is to be changed; the step is then not yet in the
// trace.
func (c *call) ask(ctx context.Context, p Policy) (*Verdict, *step, error) {
	begin := time.Now()
	v, err := p.Judge(ctx, &c.in)
	s := &step{id: p.ID(), phase: c.in.Phase, took: time.Since(begin)}
	if err != nil {
		return nil, s, c.failed(ctx, s, err)
	}
	s.verdict(v)
	for _, w := range v.Warnings {
		c.r.Warn(w)
	}
	for k, a := range v.Annotations {
		c.r.Annotate(k, a)
	}
	if v.Denied != nil {
		return nil, s, c.denied(s, v)
	}
	if v.Patch == nil && v.Object == nil || v.Skipped {
		c.trace.add(s)
		return nil, s, nil
	}
	if c.in.Phase != pluginsv1.PhaseMutate {
		return nil, s, c.broken(s, "it changes the object, which is for the mutating phase", false)
	}
	s.Outcome = outcomeChanged
	if enforced(v.Mode) {
		return v, s, nil
	}
	s.change(c.r, c.in.Object, v)
	if v.Mode == pluginsv1.ModeAudit {
		c.r.Annotate("patch.plugins.proa.io/"+s.id.Name, cut(s.Patch, maxAnnotation))
	}
	c.trace.add(s)
	return nil, s, nil
}

func enforced(m pluginsv1.Mode) bool { return m == "" || m == pluginsv1.ModeEnforce }

// denied does what the mode says with a denial.
func (c *call) denied(s *step, v *Verdict) error {
	c.trace.add(s)
	switch v.Mode {
	case "", pluginsv1.ModeEnforce:
		return &admission.Denial{Status: *v.Denied}
	case pluginsv1.ModeWarn:
		c.r.Warn(v.Denied.Message)
	case pluginsv1.ModeAudit:
		c.r.Annotate("denied.plugins.proa.io/"+s.id.Name, cut(v.Denied.Message, maxAnnotation))
	case pluginsv1.ModeShadow:
	}
	return nil
}

// broken fails a policy whose answer cannot be used.
func (c *call) broken(s *step, detail string, ignore bool) error {
	return c.failed(context.Background(), s, &Failure{Reason: "BadReply", Detail: detail, Ignore: ignore})
}

// failed deals with a policy that gave no usable answer. It returns nil if that
// is ignored, and otherwise the error for the client.
func (c *call) failed(ctx context.Context, s *step, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var f *Failure
	if !errors.As(err, &f) {
		return err
	}
	text := fmt.Sprintf("%s %q failed: %s: %s", spoken(s.id.Kind), s.id.Name, f.Reason, f.Detail)
	s.failure(f)
	c.trace.add(s)
	c.r.Annotate("failed.plugins.proa.io/"+s.id.Name, cut(f.Reason+": "+f.Detail, maxAnnotation))
	if f.Ignore {
		c.r.Warn(cut(text+" (ignored)", maxWarning))
		return nil
	}
	if f.Status != nil {
		return &admission.Denial{Status: *f.Status}
	}
	st := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: text,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(f.Reason), Message: f.Detail}}},
	}
	if f.Retry {
		st.Code, st.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
		st.Details.RetryAfterSeconds = 1
	}
	return &admission.Denial{Status: st}
}

// spoken is how messages call a kind of policies.
func spoken(kind string) string {
	switch kind {
	case AdmissionPlugin:
		return "admission plugin"
	case MutatingWebhook, ValidatingWebhook:
		return "admission webhook"
	}
	return kind
}

// Bounds of what goes to the client and the audit log.
const (
	maxWarning    = 1024
	maxAnnotation = 4096
)

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}
