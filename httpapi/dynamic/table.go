package dynamic

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
)

// A Set is the kinds at one moment. It does not change.
type Set struct {
	kinds  []*Kind
	byPath map[string]*Kind
}

// CompareVersions compares versions as clients prefer them: v2, v1, v1beta1.
func CompareVersions(a, b string) int { return version.CompareKubeAwareVersionStrings(a, b) }

// Kinds returns the kinds in discovery order: by group, the best version first. The slice must not be changed.
func (s *Set) Kinds() []*Kind { return s.kinds }

// Lookup returns the kind of a resource, or nil.
func (s *Set) Lookup(group, version, plural string) *Kind {
	return s.byPath[path(group, version, plural)]
}

// Config says what a Table does not take.
type Config struct {
	// Fixed are the rows that are served anyway; nil is api.Resources.
	Fixed []*api.Resource
}

// A Table holds the present Set. It is safe for concurrent use. The zero value
// is not ready; see New.
type Table struct {
	fixed   map[string]bool // by path
	current atomic.Pointer[Set]

	mu      sync.Mutex // guards the fields below, and is held while listeners run
	owners  map[string][]*Kind
	changed []func(*Set)
}

// New returns an empty table.
func New(cfg Config) *Table {
	if cfg.Fixed == nil {
		cfg.Fixed = api.Resources()
	}
	t := &Table{fixed: map[string]bool{}, owners: map[string][]*Kind{}}
	for _, r := range cfg.Fixed {
		t.fixed[path(r.Group, r.Version, r.Plural)] = true
	}
	t.current.Store(&Set{})
	return t
}

// Current returns the present kinds.
func (t *Table) Current() *Set { return t.current.Load() }

// OnChange has f called with the present Set, now and whenever there is another
// one, before that takes effect: what depends on the kinds is ready when they
// are. f must not call the table.
func (t *Table) OnChange(f func(*Set)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = append(t.changed, f)
	f(t.current.Load())
}

// SetVirtual replaces the virtual resources of an owner, such as a VirtualAPI
// by its name; none withdraws them. Resources that are the same as before, by
// Resource and Provider, stay, with their watches; the watches of others end.
//
// It changes nothing and returns an error if one is not complete, or if another
// owner, or the fixed table, has it.
func (t *Table) SetVirtual(owner string, list []Virtual) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	kinds := make([]*Kind, 0, len(list))
	for i := range list {
		v := list[i] // a copy that the kind keeps
		if j := slices.IndexFunc(t.owners[owner], func(k *Kind) bool { return k.is(&v) }); j >= 0 {
			kinds = append(kinds, t.owners[owner][j])
			continue
		}
		k, err := newVirtual(&v)
		if err != nil {
			return fmt.Errorf("kinds of %q: %w", owner, err)
		}
		kinds = append(kinds, k)
	}
	return t.replace(owner, kinds)
}

// SetStored replaces the stored kinds of an owner. Kinds are the same if the
// pointers are. It returns an error as SetVirtual does.
func (t *Table) SetStored(owner string, kinds []*Kind) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range kinds {
		if k.Resource == nil || k.Stored == nil {
			return fmt.Errorf("kinds of %q: %w", owner, errors.New("a stored kind needs Resource and Stored"))
		}
	}
	return t.replace(owner, slices.Clone(kinds))
}

// replace makes the kinds of an owner those that are served; t.mu is held.
func (t *Table) replace(owner string, kinds []*Kind) error {
	next, err := t.with(owner, kinds)
	if err != nil {
		return fmt.Errorf("kinds of %q: %w", owner, err)
	}
	before := t.owners[owner]
	if slices.Equal(before, kinds) {
		return nil
	}
	for _, k := range kinds {
		if k.context == nil {
			k.begin()
		}
	}
	if len(kinds) == 0 {
		delete(t.owners, owner)
	} else {
		t.owners[owner] = kinds
	}
	for _, f := range t.changed {
		f(next)
	}
	t.current.Store(next)
	for _, k := range before {
		if !slices.Contains(kinds, k) {
			k.cancel()
		}
	}
	return nil
}

// with returns the set in which an owner has the kinds.
func (t *Table) with(owner string, kinds []*Kind) (*Set, error) {
	s := &Set{byPath: map[string]*Kind{}}
	add := func(kinds []*Kind) error {
		for _, k := range kinds {
			p := k.path()
			if t.fixed[p] || s.byPath[p] != nil {
				return fmt.Errorf("%s of version %s is served already", k.Resource.GR(), k.Resource.Version)
			}
			s.byPath[p] = k
			s.kinds = append(s.kinds, k)
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.owners)) {
		if name == owner {
			continue
		}
		if err := add(t.owners[name]); err != nil {
			return nil, err
		}
	}
	if err := add(kinds); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.kinds, func(a, b *Kind) int {
		return cmp.Or(cmp.Compare(a.Resource.Group, b.Resource.Group), CompareVersions(b.Resource.Version, a.Resource.Version))
	})
	return s, nil
}
