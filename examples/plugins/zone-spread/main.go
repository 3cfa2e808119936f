// Command zone-spread is a plugin of Proa that takes part in scheduling: it
// keeps pods that name a pool to the nodes of that pool, and prefers nodes of
// the zones with the most room.
//
// Settings, all optional:
//
//	{"poolLabel": "example.com/pool"}
package main

import (
	"errors"

	"github.com/proa-project/proa/wasmplugins/guest"
)

func main() {}

func init() {
	guest.OnConfigure(configure)
	guest.OnPrepare(prepare)
	guest.OnFilter(filter)
	guest.OnScore(score)
}

// poolLabel is the label of nodes, and the annotation of pods, with the pool.
var poolLabel = "example.com/pool"

func configure(settings guest.Value) error {
	if l := settings.Get("poolLabel"); !l.Missing() {
		if poolLabel = l.Text(); poolLabel == "" {
			return errors.New("poolLabel must be the key of a label")
		}
	}
	return nil
}

// pool is that of the pod at hand.
var pool string

// reasons are why a node will not do.
var reasons = []guest.Reason{{Text: "node(s) were not in the pod's pool", Unresolvable: true}}

func prepare(r *guest.PodRequest) guest.Plan {
	pool = r.Pod.Get("metadata", "annotations", poolLabel).Text()
	return guest.Plan{Reasons: reasons, SkipFilter: pool == ""}
}

func filter(nodes *guest.Nodes, v guest.Verdicts) {
	key := nodes.Key(poolLabel)
	for i := range nodes.Len() {
		if !v.Asked(i) {
			continue
		}
		if have, ok := nodes.At(i).Label(key); !ok || have != pool {
			v.Veto(i, 0)
		}
	}
}

// zones are the sums of the feasible nodes of each zone.
var zones [256]guest.Amount

func zoneOf(n guest.Node) *guest.Amount { return &zones[n.Zone()%len(zones)] }

// score gives a node the share of its zone's processors that is free.
func score(nodes *guest.Nodes, s guest.Scores) {
	for i := range nodes.Len() {
		if s.Feasible(i) {
			n := nodes.At(i)
			z, cpu := zoneOf(n), n.CPU()
			z.Allocatable += cpu.Allocatable
			z.Requested += cpu.Requested
		}
	}
	var points [len(zones)]int32
	for k, z := range zones {
		if free := z.Free(); free > 0 {
			points[k] = int32(100 * free / z.Allocatable)
		}
	}
	for i := range nodes.Len() {
		if s.Feasible(i) {
			s[i] = points[nodes.At(i).Zone()%len(zones)]
		}
	}
}
