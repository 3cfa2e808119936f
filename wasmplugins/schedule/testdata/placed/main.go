// Command placed is a guest that serves every point of scheduling, and does
// what an annotation of the pod says.
package main

import (
	"strings"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func main() {}

func init() {
	guest.OnPrepare(func(r *guest.PodRequest) (plan guest.Plan) {
		plan.Reasons = []guest.Reason{{Text: "node(s) had no example.test/yes"}, {Text: "node(s) were tainted", Unresolvable: true}}
		switch v := r.Pod.Get("metadata", "annotations", "prepare").Text(); {
		case v == "reject":
			plan.Reject, plan.Unresolvable = []string{"rejected by " + r.SchedulerName}, true
		case strings.HasPrefix(v, "nodes:"):
			plan.Nodes = strings.Split(v[6:], ",")
		case v == "skip":
			plan.SkipFilter, plan.SkipScore = true, true
		case v == "scale":
			plan.Normalize = guest.Scale
		case v == "reverse":
			plan.Normalize = guest.Reverse
		}
		return plan
	})
	guest.OnFilter(func(t *guest.Nodes, v guest.Verdicts) {
		key := t.Key("example.test/yes")
		for i := range t.Len() {
			if !v.Asked(i) {
				continue
			}
			n := t.At(i)
			for taint := range n.Taints {
				if taint.Key == "bad" && taint.Effect == "NoExecute" {
					v.Veto(i, 1)
				}
			}
			if _, ok := n.Label(key); !ok && v.Asked(i) {
				v.Veto(i, 0)
			}
		}
	})
	guest.OnPreScore(func(t *guest.Nodes, s guest.Scores) bool {
		for i := range t.Len() {
			if s.Feasible(i) && t.At(i).Name() == "no-score" {
				return true
			}
		}
		return false
	})
	guest.OnScore(func(t *guest.Nodes, s guest.Scores) {
		for i := range t.Len() {
			if s.Feasible(i) {
				n := t.At(i)
				gpu, _ := n.Scalar("example.test/gpu")
				s[i] = int32(gpu.Free()) + int32(n.Pods().Requested)
			}
		}
	})
	guest.OnPostFilter(func(h *guest.Hopeless) (string, string) {
		if h.Resolvable.Len() == 0 {
			return "", "no help for " + h.Pod.Get("metadata", "name").Text() + "."
		}
		first := ""
		for _, n := range h.Resolvable.Items {
			first = n.Text()
			break
		}
		return first, "help is on its way."
	})
	say := func(point string) func(*guest.Placed) guest.Outcome {
		return func(p *guest.Placed) guest.Outcome {
			switch p.Pod.Get("metadata", "annotations", point).Text() {
			case "refuse":
				return guest.Refuse(point + " refuses " + p.Node)
			case "wait":
				return guest.Wait(point+" waits", 1, 1)
			case "done":
				return guest.Outcome{Allowed: true, Done: true}
			case "trap":
				panic(point)
			}
			guest.Info(point + " " + p.Node)
			return guest.Pass()
		}
	}
	guest.OnReserve(say("reserve"), func(p *guest.Placed) { say("unreserve")(p) })
	guest.OnPermit(say("permit"))
	guest.OnPreBind(say("prebind"))
	guest.OnBind(say("bind"))
	guest.OnPostBind(func(p *guest.Placed) { say("postbind")(p) })
}
