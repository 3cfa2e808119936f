package openapi

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"

	"github.com/proa-project/proa/api"
)

var update = flag.Bool("update", false, "rewrite the files that tests compare with") // a flag

// wholeModel has all types of all kinds.
func wholeModel(t testing.TB) *model {
	t.Helper()
	m := newModel(api.Resources())
	objects := []any{autoscalingv1.Scale{}}
	for _, r := range api.Resources() {
		objects = append(objects, r.New())
		if !r.CreateOnly {
			objects = append(objects, r.NewList())
		}
		for _, s := range r.Subresources {
			if s.New != nil {
				objects = append(objects, s.New())
			}
		}
	}
	for _, o := range objects {
		if _, err := m.add(o); err != nil {
			t.Fatal(err)
		}
	}
	m.finish()
	return m
}

// TestMarkers compares markers.txt with the comments in upstream's sources,
// and with -update writes it.
func TestMarkers(t *testing.T) {
	types := map[string][]reflect.Type{} // by package
	m := wholeModel(t)
	for _, typ := range m.types {
		types[typ.PkgPath()] = append(types[typ.PkgPath()], typ)
		for _, f := range fieldsOf(typ) { // structs that are only inlined
			if !slices.Contains(types[f.owner.PkgPath()], f.owner) {
				types[f.owner.PkgPath()] = append(types[f.owner.PkgPath()], f.owner)
			}
		}
	}
	var lines []string
	for path, list := range types {
		if !strings.HasPrefix(path, "k8s.io/") {
			continue
		}
		p, err := build.Import(path, ".", build.FindOnly)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, factsOf(t, p.Dir, list)...)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	got := "# Facts about upstream's types that their tags do not tell; written by go test -run TestMarkers -update\n" + strings.Join(lines, "")
	if *update {
		if err := os.WriteFile("markers.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(markersText, got); d != "" {
		t.Errorf("markers.txt is out of step (-update rewrites it):\n%s", d)
	}
}

// factsOf returns the lines of markers.txt for types of one package.
func factsOf(t *testing.T, dir string, types []reflect.Type) []string {
	t.Helper()
	fset := token.NewFileSet()
	//nolint:staticcheck // SA1019: the folders have no files with build tags
	pkgs, err := parser.ParseDir(fset, dir, func(fi os.FileInfo) bool {
		return !strings.HasSuffix(fi.Name(), "_test.go") && !strings.HasPrefix(fi.Name(), "zz_")
	}, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, pkg := range pkgs {
		for _, file := range pkg.Files {
			for _, d := range file.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.TYPE {
					continue
				}
				for _, spec := range g.Specs {
					ts := spec.(*ast.TypeSpec)
					i := slices.IndexFunc(types, func(typ reflect.Type) bool { return typ.Name() == ts.Name.Name })
					if i < 0 {
						continue
					}
					doc := ts.Doc
					if doc == nil {
						doc = g.Doc
					}
					lines = append(lines, factLine(types[i], "", doc, false)...)
					if st, ok := ts.Type.(*ast.StructType); ok {
						lines = append(lines, fieldFacts(types[i], st)...)
					}
				}
			}
		}
	}
	return lines
}

func fieldFacts(typ reflect.Type, st *ast.StructType) []string {
	var lines []string
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 || f.Tag == nil {
			continue
		}
		sf, ok := typ.FieldByName(f.Names[0].Name)
		if !ok {
			continue
		}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		lines = append(lines, factLine(typ, name, f.Doc, !strings.Contains(options, "omitempty"))...)
	}
	return lines
}

// factLine returns the line of a field, or none if there is nothing to say.
func factLine(typ reflect.Type, field string, doc *ast.CommentGroup, wantOptional bool) []string {
	if doc == nil {
		return nil
	}
	var facts, keys []string
	add := func(f string) {
		if !slices.Contains(facts, f) {
			facts = append(facts, f)
		}
	}
	for _, c := range doc.List {
		text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
		name, value, _ := strings.Cut(strings.TrimPrefix(text, "+"), "=")
		if !strings.HasPrefix(text, "+") {
			continue
		}
		switch name {
		case "listType":
			add("list=" + value)
		case "listMapKey":
			if !slices.Contains(keys, value) {
				keys = append(keys, value)
			}
		case "mapType", "structType":
			add("map=" + value)
		case "default":
			if v := strings.Trim(value, `"`); strings.HasPrefix(value, `"`) && v != "" {
				add("default=" + v)
			}
		case "optional":
			if wantOptional {
				add("optional")
			}
		}
	}
	if len(keys) > 0 {
		add("keys=" + strings.Join(keys, ","))
	}
	if len(facts) == 0 {
		return nil
	}
	slices.Sort(facts)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\n", markerKey(typ, field), strings.Join(facts, " "))
	return []string{b.String()}
}
