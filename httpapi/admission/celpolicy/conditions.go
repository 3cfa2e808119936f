package celpolicy

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/expression"
	"github.com/proa-project/proa/httpapi/admission/policy"
)

// Conditions are match conditions, compiled. They are safe for concurrent use;
// nil always holds.
type Conditions struct{ list []program }

// NewConditions compiles the match conditions of a webhook or a plugin. One that
// does not compile fails each time.
func NewConditions(list []admissionregistrationv1.MatchCondition) *Conditions {
	return newConditions(list, false)
}

func newConditions(list []admissionregistrationv1.MatchCondition, params bool) *Conditions {
	if len(list) == 0 {
		return nil
	}
	env := expression.New(expression.Options{Params: params})
	c := &Conditions{}
	for i := range list {
		source := strings.TrimSpace(list[i].Expression)
		p, err := env.Compile(source, expression.Condition)
		c.list = append(c.list, program{p, source, err})
	}
	return c
}

// loop reports whether one of the conditions may take long.
func (c *Conditions) loop() bool {
	return c != nil && slices.ContainsFunc(c.list, func(p program) bool { return p.Program != nil && p.Loops })
}

// Hold reports whether all conditions hold for a write that is shown as row. One
// that does not is enough to know; the error is that of all which cannot be
// evaluated.
func (c *Conditions) Hold(ctx context.Context, in *policy.Input, row *api.Resource, a Authorize) (bool, error) {
	if c == nil {
		return true, nil
	}
	if c.loop() && !in.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, in.Deadline)
		defer cancel()
	}
	s, err := newSubject(ctx, in, row, a)
	if err != nil {
		return false, err
	}
	return c.hold(s)
}

// hold is Hold for a subject. As upstream has it, conditions do not see the
// namespace.
func (c *Conditions) hold(s *subject) (bool, error) {
	if c == nil {
		return true, nil
	}
	namespace := s.namespace
	s.namespace = nil
	defer func() { s.namespace = namespace }()
	left := conditionBudget
	var faults []error
	for i := range c.list {
		val, err := s.eval(&c.list[i], &left)
		switch {
		case errors.As(err, new(*exhausted)):
			return false, err
		case err != nil:
			faults = append(faults, err)
		case val == types.False:
			return false, nil
		}
	}
	if len(faults) > 0 {
		return false, utilerrors.NewAggregate(faults)
	}
	return true, nil
}
