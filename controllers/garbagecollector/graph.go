// Package garbagecollector deletes what has lost its owners, and carries out
// the foreground and orphan ways of deletion.
//
// It keeps a graph of who owns whom over all kinds. The graph may be late or
// hold references that were never true, so nothing is deleted on its word:
// every object and every owner that seems to be missing is looked up first.
package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/proa-project/proa/api"
)

// An owner is one owner reference, without what the graph does not need.
type owner struct {
	uid              types.UID
	apiVersion, kind string
	name             string
	block            bool
	kinds            *kinds // that users have defined
}

// A node is an object in the graph. A node that is virtual is known only by
// the references of its dependents.
type node struct {
	uid             types.UID
	row             *api.Resource // nil for a virtual node of an unknown kind
	namespace, name string
	owners          []owner
	// dependents are the nodes whose owners name this one.
	dependents map[*node]struct{}
	virtual    bool
	// deleting is true if the object has a deletion time; foreground and
	// orphan if it has the finalizer of that way of deletion as well.
	deleting, foreground, orphan bool
}

// A graph knows who owns whom. It belongs to one goroutine at a time.
type graph struct {
	nodes map[types.UID]*node
	kinds *kinds // that users have defined; of its own lock
}

func newGraph() *graph { return &graph{nodes: map[types.UID]*node{}, kinds: newKinds()} }

// todo is what has to be looked at after a change.
type todo struct {
	remove []types.UID // try to delete, if it should be
	orphan []types.UID // release its dependents
}

// observe takes in an object as it is now.
func (g *graph) observe(row *api.Resource, obj metav1.Object) todo {
	var t todo
	uid := obj.GetUID()
	n := g.nodes[uid]
	if n == nil {
		n = &node{uid: uid}
		g.nodes[uid] = n
	}
	before := n.owners
	n.virtual = false
	n.row, n.namespace, n.name = row, obj.GetNamespace(), obj.GetName()
	n.owners = g.ownersOf(obj)
	n.deleting = obj.GetDeletionTimestamp() != nil
	n.foreground = n.deleting && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents)
	n.orphan = n.deleting && slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents)
	g.link(n, before, &t)

	switch {
	case n.orphan:
		t.orphan = append(t.orphan, uid)
	case n.foreground:
		t.remove = append(t.remove, uid)
	case n.deleting:
	case !slices.Equal(before, n.owners) && len(before) > 0:
		t.remove = append(t.remove, uid) // it may have lost its last owner
	}
	// Those who named this object in another place than it is have to be
	// looked at: for them it does not exist.
	for d := range n.dependents {
		if !names(d, n) {
			t.remove = append(t.remove, d.uid)
		}
	}
	// An owner that waits for this object may go on.
	for _, o := range before {
		if p := g.nodes[o.uid]; p != nil && p.foreground {
			t.remove = append(t.remove, p.uid)
		}
	}
	return t
}

// link connects a node to its owners and takes it off those it had before.
func (g *graph) link(n *node, before []owner, t *todo) {
	for _, o := range before {
		if p := g.nodes[o.uid]; p != nil && !slices.ContainsFunc(n.owners, func(x owner) bool { return x.uid == o.uid }) {
			delete(p.dependents, n)
			g.drop(p)
		}
	}
	for _, o := range n.owners {
		p := g.nodes[o.uid]
		if p == nil {
			p = &node{uid: o.uid, virtual: true}
			g.nodes[o.uid] = p
		}
		if p.virtual && p.row == nil {
			p.row, p.namespace, p.name = place(n, o)
		}
		if _, known := p.dependents[n]; known {
			continue
		}
		if p.dependents == nil { // most objects own nothing
			p.dependents = map[*node]struct{}{}
		}
		p.dependents[n] = struct{}{}
		switch {
		case p.virtual:
			t.remove = append(t.remove, p.uid) // does it exist?
		case !names(n, p) || p.foreground:
			t.remove = append(t.remove, n.uid)
		}
	}
}

// drop forgets a virtual node that nobody names any more.
func (g *graph) drop(p *node) {
	if p.virtual && len(p.dependents) == 0 {
		delete(g.nodes, p.uid)
	}
}

// gone takes in that an object does not exist any more.
func (g *graph) gone(uid types.UID) todo {
	var t todo
	n := g.nodes[uid]
	if n == nil {
		return t
	}
	for _, o := range n.owners {
		p := g.nodes[o.uid]
		if p == nil {
			continue
		}
		delete(p.dependents, n)
		if p.foreground {
			t.remove = append(t.remove, p.uid)
		}
		g.drop(p)
	}
	for d := range n.dependents {
		t.remove = append(t.remove, d.uid)
	}
	// As long as it is named it stays as a virtual node, in case it was only
	// looked for in the wrong place.
	n.virtual, n.owners, n.deleting, n.foreground, n.orphan = true, nil, false, false, false
	g.drop(n)
	return t
}

// blockers returns the dependents that a foreground deletion waits for.
func (n *node) blockers() []*node {
	var out []*node
	for d := range n.dependents {
		if names(d, n) && slices.ContainsFunc(d.owners, func(o owner) bool { return o.uid == n.uid && o.block }) {
			out = append(out, d)
		}
	}
	return out
}

// owners returns the owner references of an object.
func owners(obj metav1.Object) []owner {
	refs := obj.GetOwnerReferences()
	if len(refs) == 0 {
		return nil
	}
	out := make([]owner, 0, len(refs))
	for _, r := range refs {
		out = append(out, owner{
			uid: r.UID, apiVersion: r.APIVersion, kind: r.Kind, name: r.Name,
			block: r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion,
		})
	}
	return out
}

// ownersOf is owners for those who want to know where the owners are.
func (g *graph) ownersOf(obj metav1.Object) []owner {
	list := owners(obj)
	for i := range list {
		list[i].kinds = g.kinds
	}
	return list
}

// place returns where an owner of n must be: in n's namespace, if its kind has
// namespaces. Row is nil for a kind that is not served.
func place(n *node, o owner) (row *api.Resource, namespace, name string) {
	row = kindOf(o)
	if row != nil && row.Namespaced {
		namespace = n.namespace
	}
	return row, namespace, o.name
}

// names tells whether a reference of d means n: the UID alone is not enough,
// for an owner in another namespace does not count.
func names(d, n *node) bool {
	for _, o := range d.owners {
		if o.uid != n.uid {
			continue
		}
		row, namespace, name := place(d, o)
		if name == n.name && namespace == n.namespace && row != nil && n.row != nil && row.GR() == n.row.GR() {
			return true
		}
	}
	return false
}
