// Package schedulinggates keeps pods out of the queue until all their
// scheduling gates are gone.
package schedulinggates

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/proa-project/proa/scheduling/framework"
)

// Name is the plugin's name in profiles.
const Name = "SchedulingGates"

// Plugin holds back pods with spec.schedulingGates.
type Plugin struct{}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// PreEnqueue refuses a pod with gates and names them.
func (*Plugin) PreEnqueue(pod *corev1.Pod) *framework.Rejection {
	if len(pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	names := make([]string, len(pod.Spec.SchedulingGates))
	for i, g := range pod.Spec.SchedulingGates {
		names[i] = g.Name
	}
	return &framework.Rejection{
		Reasons:      []string{fmt.Sprintf("waiting for scheduling gates: %v", names)},
		Unresolvable: true,
	}
}
