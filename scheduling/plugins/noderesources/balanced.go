package noderesources

import (
	"math"

	"github.com/proa-project/proa/scheduling/framework"
)

// BalancedName is the name of Balanced in profiles.
const BalancedName = "NodeResourcesBalancedAllocation"

// Balanced prefers nodes whose CPU and memory the pod brings to an even use.
type Balanced struct{}

// Name returns the plugin's name.
func (*Balanced) Name() string { return BalancedName }

// PreScore skips Score for pods that ask for neither.
func (*Balanced) PreScore(c *framework.Cycle, _ []int32) (bool, error) {
	return c.Pod.Request.MilliCPU == 0 && c.Pod.Request.Memory == 0, nil
}

// Score is above three quarters of MaxScore if the pod makes the use of CPU and
// memory more even than it is, and below if it makes it less so.
func (*Balanced) Score(c *framework.Cycle, nodes []int32, scores []int64) error {
	s, want := c.Snapshot, c.Pod.Request
	for k, i := range nodes {
		cpu, memory := s.AllocCPU[i], s.AllocMemory[i]
		with := balance(s.UsedCPU[i]+want.MilliCPU, cpu, s.UsedMemory[i]+want.Memory, memory)
		without := balance(s.UsedCPU[i], cpu, s.UsedMemory[i], memory)
		scores[k] = framework.MaxScore/2 + (framework.MaxScore/2+with-without)/2
	}
	return nil
}

// balance is MaxScore less the standard deviation of the two parts in use, as a
// part of MaxScore. With one resource only, use is even.
func balance(cpu, allocCPU, memory, allocMemory int64) int64 {
	if allocCPU == 0 || allocMemory == 0 {
		return framework.MaxScore
	}
	a := min(float64(cpu)/float64(allocCPU), 1)
	b := min(float64(memory)/float64(allocMemory), 1)
	return int64((1 - math.Abs(a-b)/2) * framework.MaxScore)
}

// Sign tells pods apart by what they ask for.
func (*Balanced) Sign(c *framework.Cycle, key []byte) ([]byte, bool) {
	return framework.AppendInt(framework.AppendInt(key, c.Pod.Request.MilliCPU), c.Pod.Request.Memory), true
}
