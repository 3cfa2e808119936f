package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/httpapi/request"
)

// A RoleIndex holds all roles and bindings so that what is bound to a user is
// found by a look into a few maps, however many bindings there are. Whoever
// knows of changes puts them in one by one; a change costs what the one binding
// has subjects. It is safe for concurrent use.
type RoleIndex struct {
	loaded     chan struct{}
	loadedOnce sync.Once

	mu       sync.RWMutex // guards the fields below and the roles in them
	roles    map[objectKey]*role
	bindings map[objectKey]*binding
	subjects map[subjectKey]map[string][]*grant // by namespace of the binding, then sorted by its name
}

// An objectKey names a role or a binding; the namespace is "" for those of the
// whole cluster.
type objectKey struct{ namespace, name string }

// A subjectKey is a user or a group.
type subjectKey struct {
	group bool
	name  string
}

// A role is there while it is defined, or while a binding refers to it.
type role struct {
	key     objectKey
	defined bool
	rules   []rbacv1.PolicyRule
	used    int // bindings that refer to it
}

type binding struct {
	key      objectKey
	role     *role
	subjects []subjectKey
}

// A grant is what one subject of one binding has.
type grant struct {
	binding *binding
	role    *role
	reason  string // why what the role allows is allowed
}

// NewRoleIndex returns an empty index.
func NewRoleIndex() *RoleIndex {
	return &RoleIndex{
		loaded:   make(chan struct{}),
		roles:    map[objectKey]*role{},
		bindings: map[objectKey]*binding{},
		subjects: map[subjectKey]map[string][]*grant{},
	}
}

// Loaded says that everything that there was at the start has been put in.
func (x *RoleIndex) Loaded() { x.loadedOnce.Do(func() { close(x.loaded) }) }

// IsLoaded reports whether Loaded has been called.
func (x *RoleIndex) IsLoaded() bool {
	select {
	case <-x.loaded:
		return true
	default:
		return false
	}
}

// wait returns when the index is loaded, or the context's error.
func (x *RoleIndex) wait(ctx context.Context) error {
	select {
	case <-x.loaded:
		return nil
	default:
	}
	select {
	case <-x.loaded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for roles and bindings: %w", ctx.Err())
	}
}

// Put sets a Role, ClusterRole, RoleBinding or ClusterRoleBinding. It keeps
// what obj points to. Other kinds are ignored.
func (x *RoleIndex) Put(obj runtime.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch o := obj.(type) {
	case *rbacv1.Role:
		x.define(objectKey{o.Namespace, o.Name}, o.Rules)
	case *rbacv1.ClusterRole:
		x.define(objectKey{"", o.Name}, o.Rules)
	case *rbacv1.RoleBinding:
		x.bind("RoleBinding", objectKey{o.Namespace, o.Name}, o.RoleRef, o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		x.bind("ClusterRoleBinding", objectKey{"", o.Name}, o.RoleRef, o.Subjects)
	}
}

// Remove takes out what has the kind of obj and the name.
func (x *RoleIndex) Remove(obj runtime.Object, namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := objectKey{namespace, name}
	switch obj.(type) {
	case *rbacv1.Role, *rbacv1.ClusterRole:
		if r := x.roles[key]; r != nil {
			r.defined, r.rules = false, nil
			x.drop(r)
		}
	case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		x.unbind(key)
	}
}

func (x *RoleIndex) role(key objectKey) *role {
	r := x.roles[key]
	if r == nil {
		r = &role{key: key}
		x.roles[key] = r
	}
	return r
}

// drop forgets a role that is not there and that nothing refers to.
func (x *RoleIndex) drop(r *role) {
	if !r.defined && r.used == 0 {
		delete(x.roles, r.key)
	}
}

func (x *RoleIndex) define(key objectKey, rules []rbacv1.PolicyRule) {
	r := x.role(key)
	r.defined, r.rules = true, rules
}

func (x *RoleIndex) bind(kind string, key objectKey, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	x.unbind(key)
	b := &binding{key: key, role: x.role(keyOfRef(ref, key.namespace))}
	b.role.used++
	x.bindings[key] = b
	shown := key.name
	if key.namespace != "" {
		shown += "/" + key.namespace
	}
	for i := range subjects {
		s, text, ok := subjectOf(&subjects[i], key.namespace)
		if !ok || slices.Contains(b.subjects, s) {
			continue
		}
		b.subjects = append(b.subjects, s)
		in := x.subjects[s]
		if in == nil {
			in = map[string][]*grant{}
			x.subjects[s] = in
		}
		at, _ := findGrant(in[key.namespace], key.name)
		in[key.namespace] = slices.Insert(in[key.namespace], at, &grant{
			binding: b, role: b.role,
			reason: fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s", kind, shown, ref.Kind, ref.Name, text),
		})
	}
}

func (x *RoleIndex) unbind(key objectKey) {
	b := x.bindings[key]
	if b == nil {
		return
	}
	delete(x.bindings, key)
	b.role.used--
	x.drop(b.role)
	for _, s := range b.subjects {
		in := x.subjects[s]
		grants := in[key.namespace]
		if at, ok := findGrant(grants, key.name); ok {
			grants = slices.Delete(grants, at, at+1)
		}
		in[key.namespace] = grants
		if len(grants) == 0 {
			delete(in, key.namespace)
		}
		if len(in) == 0 {
			delete(x.subjects, s)
		}
	}
}

func findGrant(grants []*grant, name string) (int, bool) {
	return slices.BinarySearchFunc(grants, name, func(g *grant, name string) int { return strings.Compare(g.binding.key.name, name) })
}

// keyOfRef returns the key of the role that a binding in the namespace refers
// to.
func keyOfRef(ref rbacv1.RoleRef, namespace string) objectKey {
	if ref.Kind == "ClusterRole" {
		namespace = ""
	}
	return objectKey{namespace, ref.Name}
}

// subjectOf returns the key of a subject of a binding in a namespace, and how
// upstream describes it. A service account is the user that it is.
func subjectOf(s *rbacv1.Subject, namespace string) (key subjectKey, text string, ok bool) {
	switch s.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		return subjectKey{group: s.Kind == rbacv1.GroupKind, name: s.Name}, fmt.Sprintf("%s %q", s.Kind, s.Name), true
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		if namespace == "" {
			return subjectKey{}, "", false
		}
		return subjectKey{name: request.ServiceAccountUser(namespace, s.Name)}, fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+namespace), true
	default:
		return subjectKey{}, "", false
	}
}

// visit calls f with what is bound to the user, in the whole cluster first and
// then in the namespace, until f returns false. It holds the lock meanwhile.
func (x *RoleIndex) visit(u *request.User, namespace string, f func(*grant) bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.visitIn(u, "", f) && namespace != "" {
		x.visitIn(u, namespace, f)
	}
}

func (x *RoleIndex) visitIn(u *request.User, namespace string, f func(*grant) bool) bool {
	if !visitAll(x.subjects[subjectKey{name: u.Name}][namespace], f) {
		return false
	}
	for _, g := range u.Groups {
		if !visitAll(x.subjects[subjectKey{group: true, name: g}][namespace], f) {
			return false
		}
	}
	return true
}

func visitAll(grants []*grant, f func(*grant) bool) bool {
	for _, g := range grants {
		if !f(g) {
			return false
		}
	}
	return true
}

// rules returns the rules of a role that is there.
func (x *RoleIndex) rules(key objectKey) ([]rbacv1.PolicyRule, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	r := x.roles[key]
	if r == nil || !r.defined {
		return nil, false
	}
	return r.rules, true
}
