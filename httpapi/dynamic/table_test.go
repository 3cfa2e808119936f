package dynamic_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/dynamic"
)

// empty is a provider of nothing.
type empty struct{ _ byte }

func (*empty) Get(context.Context, *dynamic.Request) (*unstructured.Unstructured, error) {
	return nil, nil //nolint:nilnil // nothing is there
}

func (*empty) List(context.Context, *dynamic.Request) (*unstructured.UnstructuredList, error) {
	return &unstructured.UnstructuredList{}, nil
}

func row(group, version, plural string) *api.Resource {
	return &api.Resource{Group: group, Version: version, Plural: plural, Kind: "K" + plural}
}

func names(s *dynamic.Set) (out []string) {
	for _, k := range s.Kinds() {
		out = append(out, k.Resource.GVR().String())
	}
	return out
}

func TestTable(t *testing.T) {
	table := dynamic.New(dynamic.Config{})
	var seen []int
	table.OnChange(func(s *dynamic.Set) { seen = append(seen, len(s.Kinds())) })
	p := &empty{}
	a := dynamic.Virtual{Resource: row("b.example.com", "v1beta1", "as"), Provider: p}
	b := dynamic.Virtual{Resource: row("b.example.com", "v1", "as"), Provider: p}
	c := dynamic.Virtual{Resource: row("a.example.com", "v1", "cs"), Provider: p}
	set := func(owner string, list ...dynamic.Virtual) {
		t.Helper()
		if err := table.SetVirtual(owner, list); err != nil {
			t.Fatal(err)
		}
	}
	set("one", a, b)
	set("two", c)
	want := []string{"a.example.com/v1, Resource=cs", "b.example.com/v1, Resource=as", "b.example.com/v1beta1, Resource=as"}
	if d := cmp.Diff(want, names(table.Current())); d != "" {
		t.Error(d)
	}
	first := table.Current().Lookup("b.example.com", "v1", "as")
	set("one", b) // a goes, b stays
	if again := table.Current().Lookup("b.example.com", "v1", "as"); again != first || first.Context().Err() != nil {
		t.Error("a kind that is the same was replaced")
	}
	b.Provider = &empty{}
	set("one", b)
	if again := table.Current().Lookup("b.example.com", "v1", "as"); again == first || first.Context().Err() == nil {
		t.Error("a kind with another provider was kept")
	}
	set("one")
	set("two")
	if d := cmp.Diff([]int{0, 2, 3, 2, 2, 1, 0}, seen); d != "" {
		t.Error(d)
	}
}

func TestTable_refused(t *testing.T) {
	table := dynamic.New(dynamic.Config{Fixed: []*api.Resource{row("x.example.com", "v1", "fixed")}})
	p := &empty{}
	if err := table.SetVirtual("other", []dynamic.Virtual{{Resource: row("x.example.com", "v1", "others"), Provider: p}}); err != nil {
		t.Fatal(err)
	}
	stored := row("x.example.com", "v1", "as")
	stored.Storage = "/registry/as/"
	for want, v := range map[string]dynamic.Virtual{
		"needs Resource and Provider":    {Provider: p},
		"fixed.x.example.com":            {Resource: row("x.example.com", "v1", "fixed"), Provider: p},
		"others.x.example.com":           {Resource: row("x.example.com", "v1", "others"), Provider: p},
		"must be set":                    {Resource: row("", "v1", "as"), Provider: p},
		"no storage and no subresources": {Resource: stored, Provider: p},
	} {
		if err := table.SetVirtual("test", []dynamic.Virtual{v}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	twice := dynamic.Virtual{Resource: row("x.example.com", "v1", "as"), Provider: p}
	if err := table.SetVirtual("test", []dynamic.Virtual{twice, twice}); err == nil {
		t.Error("one kind twice")
	}
	if n := len(table.Current().Kinds()); n != 1 {
		t.Errorf("%d kinds after refusals", n)
	}
}

// TestTable_concurrent changes and reads at once; the race detector looks on.
func TestTable_concurrent(t *testing.T) {
	table := dynamic.New(dynamic.Config{})
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			v := dynamic.Virtual{Resource: row("g.example.com", "v1", fmt.Sprint("r", i)), Provider: &empty{}}
			for range 200 {
				if err := table.SetVirtual(fmt.Sprint(i), []dynamic.Virtual{v}); err != nil {
					t.Error(err)
				}
				if k := table.Current().Lookup("g.example.com", "v1", fmt.Sprint("r", i)); k == nil || k.Context().Err() != nil {
					t.Error("own kind is not there")
				}
				if err := table.SetVirtual(fmt.Sprint(i), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if n := len(table.Current().Kinds()); n > 0 {
		t.Errorf("%d kinds are left", n)
	}
}
