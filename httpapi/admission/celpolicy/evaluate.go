package celpolicy

import (
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/proa-project/proa/api/expression"
)

// A budget is the cost that is left for the expressions of one policy.
type budget int64

// exhausted is the error of an expression for which the budget was not enough:
// the ones after it are not evaluated.
type exhausted struct{ detail string }

func (e *exhausted) Error() string { return e.detail }

const outOfBudget = "validation failed due to running out of cost budget, no further validation rules will be run"

// eval evaluates an expression within a budget. The error is an *exhausted, or
// says what is wrong with the one expression.
func (s *subject) eval(p *program, left *budget) (ref.Val, error) {
	if p.err != nil {
		return nil, fmt.Errorf("compilation error: %w", p.err)
	}
	val, details, err := s.run(p.Program)
	spent := s.spent
	s.spent = 0
	if details == nil || details.ActualCost() == nil {
		return nil, &exhausted{fmt.Sprintf("runtime cost could not be calculated for expression: %v, no further expression will be run", p.source)}
	}
	for _, cost := range [...]uint64{spent, *details.ActualCost()} {
		if cost > math.MaxInt64 || budget(cost) > *left {
			*left = 0
			return nil, &exhausted{outOfBudget}
		}
		*left -= budget(cost)
	}
	if err != nil {
		return nil, fmt.Errorf("expression '%v' resulted in error: %w", p.source, err)
	}
	return val, nil
}

// run evaluates a program. Only one that loops has to look whether the context
// has ended.
func (s *subject) run(p *expression.Program) (ref.Val, *cel.EvalDetails, error) {
	if p.Loops {
		return p.ContextEval(s.ctx, s)
	}
	return p.Eval(s)
}

// The budgets of one policy for one write.
const (
	policyBudget    = budget(celconfig.RuntimeCELCostBudget)
	conditionBudget = budget(celconfig.RuntimeCELCostBudgetMatchConditions)
)
