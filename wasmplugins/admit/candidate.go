package admit

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
	"github.com/proa-project/proa/httpapi/admission/policy"
	"github.com/proa-project/proa/wasmplugins/abi"
	"github.com/proa-project/proa/wasmplugins/engine"
	"github.com/proa-project/proa/wasmplugins/runner"
)

// maxExamples is how many differences a status shows.
const maxExamples = 10

// A tally is what was found out about a candidate and is not yet in the status
// of the plugin.
type tally struct {
	digest                      string // of the candidate it is about
	compared, differing, failed int64
	examples                    []pluginsv1.Difference
}

// tallies are those of all plugins, by name.
type tallies struct {
	mu sync.Mutex // guards the field below
	of map[string]*tally
}

// compare asks the candidate the same, in shadow, and notes the difference.
func (b *binding) compare(ctx context.Context, in *policy.Input, r *abi.AdmissionRequest, current answer) {
	if current.err != nil {
		return
	}
	shadow := b.ask(ctx, b.candidate, in, r)
	if errors.Is(shadow.err, runner.ErrRemoved) || engine.ReasonOf(shadow.err) == engine.NotReady || ctx.Err() != nil {
		return
	}
	t := &b.point.tallies
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]*tally{}
	}
	mine := t.of[b.object.Name]
	if digest := b.candidate.Digest(); mine == nil || mine.digest != digest {
		mine = &tally{digest: digest}
		t.of[b.object.Name] = mine
	}
	b.point.plugins.Touch(b.object.Name)
	if shadow.err != nil {
		mine.failed++
		return
	}
	mine.compared++
	is, would := outcome(in.Object, current.reply), outcome(in.Object, shadow.reply)
	if is == would {
		return
	}
	mine.differing++
	mine.examples = append(mine.examples, pluginsv1.Difference{
		Time: metav1.NewTime(time.Now().Truncate(time.Second)), Operation: string(in.Request.Operation), Resource: in.Request.Resource.Plural,
		Namespace: in.Request.Namespace, Name: in.Request.Name, Current: cut(is, 512), Candidate: cut(would, 512),
	})
	mine.examples = latest(mine.examples)
}

func latest(list []pluginsv1.Difference) []pluginsv1.Difference {
	return slices.Clone(list[max(0, len(list)-maxExamples):])
}

// outcome says in words what a reply means for an object.
func outcome(object []byte, r *abi.AdmissionReply) string {
	if !r.Allowed {
		return "denied: " + r.Message
	}
	after := object
	switch {
	case r.Object != nil:
		after = r.Object
	case r.Patch != nil:
		patch, err := jsonpatch.DecodePatch(r.Patch)
		if err == nil {
			after, err = patch.Apply(object)
		}
		if err != nil {
			return "changed in a way that fails: " + err.Error()
		}
	}
	if bytes.Equal(after, object) || jsonpatch.Equal(after, object) {
		return "allowed"
	}
	if diff, err := jsonpatch.CreateMergePatch(object, after); err == nil {
		return "changed: " + string(diff)
	}
	return "changed"
}

// amend brings the candidate's part of a status up to date.
func (p *Point) amend(o *pluginsv1.AdmissionPlugin, _ *guest) {
	if o.Spec.Candidate == nil {
		o.Status.Candidate = nil
		return
	}
	p.tallies.mu.Lock()
	mine := p.tallies.of[o.Name]
	delete(p.tallies.of, o.Name)
	p.tallies.mu.Unlock()
	if mine == nil {
		return
	}
	c := o.Status.Candidate
	if c == nil || c.ModuleDigest != mine.digest {
		c = &pluginsv1.CandidateStatus{ModuleDigest: mine.digest}
		o.Status.Candidate = c
	}
	c.Compared += mine.compared
	c.Differing += mine.differing
	c.Failures += mine.failed
	c.Examples = latest(append(c.Examples, mine.examples...))
}
