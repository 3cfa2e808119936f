package proa_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/proa-project/proa/"

// mayImport is the architecture: each package, and what of this module it may
// import. A key or a value ending in "/..." stands for every package below it.
// A package without a row fails the test, so a new package needs a decision.
var mayImport = map[string][]string{
	".": {},

	// The contracts that everything meets on.
	"api":            {"api/plugins/v1"},
	"api/plugins/v1": {},
	"api/defaulting": {"api", "api/plugins/v1"},
	"api/expression": {},
	"api/validation": {"api", "api/plugins/v1", "api/expression"},
	"api/table":      {"api", "api/plugins/v1"},

	"storage":             {},
	"storage/etcd":        {"storage"},
	"storage/memory":      {"storage"},
	"storage/watchcache":  {"storage"},
	"storage/storagetest": {"storage"},

	// The server side.
	"openapi":               {"api", "api/plugins/v1", "openapi/schema"},
	"openapi/schema":        {},
	"httpapi/request":       {"api"},
	"httpapi/pki":           {},
	"httpapi/authn":         {"api", "httpapi/request", "httpapi/pki"},
	"httpapi/authz":         {"api", "httpapi/request"},
	"httpapi/authz/...":     {"api"},
	"httpapi/admission":     {"api", "httpapi/request"},
	"httpapi/admission/...": {"api", "api/plugins/v1", "api/expression", "httpapi/request", "httpapi/admission", "httpapi/admission/..."},
	"httpapi/dynamic":       {"api", "api/...", "openapi", "storage", "storage/memory", "httpapi/request"},
	"httpapi/dynamic/crd":   {"api", "api/...", "openapi", "storage", "httpapi/request", "httpapi/dynamic"},
	"httpapi/review":        {"api", "httpapi/request", "httpapi/authn", "httpapi/authz"},
	"httpapi/registry":      {"api", "api/...", "openapi", "storage", "httpapi/request", "httpapi/admission"},
	"httpapi":               {"api", "api/...", "openapi", "storage", "httpapi/request", "httpapi/authn", "httpapi/authz", "httpapi/admission", "httpapi/admission/...", "httpapi/review", "httpapi/registry", "httpapi/dynamic"},

	// The client is the one leaf below httpapi that the client side may use.
	"httpapi/client":       {"api"},
	"httpapi/client/event": {"api", "httpapi/client"},

	// The client side.
	"informers":              {"api", "httpapi/client"},
	"informers/workqueue":    {},
	"controllers":            {"api", "informers", "informers/workqueue", "httpapi/client", "httpapi/client/event", "controllers/..."},
	"controllers/reconcile":  {"api", "informers/workqueue"},
	"controllers/election":   {"httpapi/client"},
	"controllers/...":        {"api", "informers", "informers/workqueue", "httpapi/client", "httpapi/client/event", "controllers/reconcile"},
	"scheduling/framework":   {"api"},
	"scheduling/plugins/...": {"api", "scheduling/framework"},
	"scheduling/queue":       {"api", "scheduling/framework", "informers/workqueue"},
	"scheduling":             {"api", "informers", "informers/workqueue", "httpapi/client", "httpapi/client/event", "scheduling/..."},
	"nodeagent/podworker":    {"api"},
	"nodeagent/volume":       {"api"},
	"nodeagent/cri":          {"api", "nodeagent/podworker"},
	"nodeagent/critest":      {"nodeagent/cri", "nodeagent/podworker"},
	"nodeagent/join":         {"api", "httpapi/client"},
	"nodeagent/streaming":    {"api", "nodeagent/cri"},
	"nodeagent/simulated":    {"api", "informers", "informers/workqueue", "httpapi/client"},
	"nodeagent":              {"api", "informers", "informers/workqueue", "httpapi/client", "httpapi/client/event", "nodeagent/..."},

	// This one compiles expressions again, with types.
	"controllers/policystatus": {"api", "api/expression", "informers", "informers/workqueue", "httpapi/client", "controllers/reconcile"},

	// The plugin host stands between: it is called by the server side and
	// reads its configuration over the API.
	"wasmplugins/fuel":       {},
	"wasmplugins/abi":        {},
	"wasmplugins/guest":      {},
	"wasmplugins/engine":     {"wasmplugins/fuel"},
	"wasmplugins/native":     {"wasmplugins/engine", "wasmplugins/abi"},
	"wasmplugins/kubewarden": {"wasmplugins/engine", "wasmplugins/abi"},
	"wasmplugins/rego":       {"wasmplugins/engine", "wasmplugins/abi"},
	"wasmplugins/schedwasm":  {"api", "scheduling/framework", "wasmplugins/engine", "wasmplugins/abi"},

	// From objects of the API to guests that run.
	"wasmplugins/library":    {"api", "api/plugins/v1", "httpapi/client", "httpapi/request", "informers", "informers/workqueue", "storage", "wasmplugins/engine", "wasmplugins/abi"},
	"wasmplugins/capability": {"api", "api/plugins/v1", "httpapi/client", "httpapi/request", "httpapi/authz", "wasmplugins/engine", "wasmplugins/abi"},
	"wasmplugins/runner":     {"api", "api/plugins/v1", "httpapi/client", "httpapi/client/event", "informers", "informers/workqueue", "wasmplugins/engine", "wasmplugins/abi", "wasmplugins/library", "wasmplugins/capability"},

	// The extension points, each with its adapters.
	"wasmplugins/admit":     {"api", "api/plugins/v1", "httpapi/request", "httpapi/admission", "httpapi/admission/...", "wasmplugins/engine", "wasmplugins/abi", "wasmplugins/native", "wasmplugins/kubewarden", "wasmplugins/rego", "wasmplugins/runner"},
	"wasmplugins/schedule":  {"api", "api/plugins/v1", "informers", "scheduling/framework", "wasmplugins/engine", "wasmplugins/abi", "wasmplugins/native", "wasmplugins/schedwasm", "wasmplugins/runner"},
	"wasmplugins/access":    {"api", "api/plugins/v1", "httpapi/request", "httpapi/authn", "httpapi/authz", "wasmplugins/engine", "wasmplugins/abi", "wasmplugins/native", "wasmplugins/runner"},
	"wasmplugins/convert":   {"api", "api/plugins/v1", "wasmplugins/engine", "wasmplugins/abi", "wasmplugins/native", "wasmplugins/runner"},
	"wasmplugins/virtual":   {"api", "api/plugins/v1", "httpapi/request", "httpapi/dynamic", "wasmplugins/engine", "wasmplugins/abi", "wasmplugins/native", "wasmplugins/runner"},
	"wasmplugins/reconcile": {"api", "api/plugins/v1", "httpapi/request", "httpapi/client", "httpapi/client/event", "informers", "informers/workqueue", "wasmplugins/engine", "wasmplugins/abi", "wasmplugins/native", "wasmplugins/runner"},
	"wasmplugins/scan":      {"api", "api/plugins/v1", "httpapi/request", "httpapi/client", "httpapi/admission", "httpapi/admission/...", "informers", "informers/workqueue", "wasmplugins/engine", "wasmplugins/abi", "wasmplugins/admit"},

	"wasmplugins/toolchain": {"wasmplugins/abi"},
	"wasmplugins/cli":       {"api", "api/plugins/v1", "scheduling/framework", "httpapi/client", "httpapi/admission", "httpapi/admission/...", "httpapi/request", "wasmplugins/..."},
	"wasmplugins/wasmtest":  {"wasmplugins/toolchain"},
	"wasmplugins":           {"api", "api/plugins/v1", "httpapi/admission", "httpapi/admission/...", "httpapi/request", "httpapi/authz", "httpapi/authn", "httpapi/client", "httpapi/client/event", "informers", "informers/workqueue", "storage", "scheduling/framework", "wasmplugins/..."},

	// Only these know the whole.
	"cmd/...":      {"..."},
	"test/...":     {"..."},
	"bench/...":    {"..."},
	"examples/...": {"wasmplugins/guest"},
}

// keptIn confines a dependency to the one place that hides it.
var keptIn = map[string]string{
	"github.com/go-chi/chi/v5":         "httpapi",
	"go.etcd.io/etcd/":                 "storage/etcd",
	"github.com/tetratelabs/wazero":    "wasmplugins",
	"github.com/containerd/containerd": "nodeagent/cri",
	"k8s.io/cri-api":                   "nodeagent",
	"github.com/getkin/kin-openapi":    "openapi",
}

// refused are dependencies that no package may have.
var refused = []string{
	"k8s.io/kubernetes",
	"k8s.io/apiserver/pkg/server",
	"k8s.io/apiserver/pkg/endpoints",
	"k8s.io/apiserver/pkg/registry",
	"k8s.io/klog",
	"github.com/sirupsen/logrus",
	"github.com/stretchr/testify",
}

// A goPackage is the part of a package's sources that the rules are about.
type goPackage struct {
	Doc     string
	Imports map[string]bool // of its non-test files
}

func TestArchitecture(t *testing.T) {
	for name, p := range readPackages(t) {
		allowed, ok := rowFor(name)
		if !ok {
			t.Errorf("%s: no row in mayImport; say what it may import", name)
		}
		if p.Doc == "" {
			t.Errorf("%s: no package comment", name)
		}
		for imp := range p.Imports {
			for dep, home := range keptIn {
				if strings.HasPrefix(imp, dep) && !within(name, home) && !within(name, "test") && !within(name, "bench") {
					t.Errorf("%s imports %s, which is kept in %s", name, imp, home)
				}
			}
			for _, dep := range refused {
				if strings.HasPrefix(imp, dep) {
					t.Errorf("%s imports %s, which is refused", name, imp)
				}
			}
			local, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if !matchAny(allowed, local) {
				t.Errorf("%s may not import %s", name, local)
			}
			if strings.HasSuffix(path.Base(local), "test") && !within(name, "test") && !within(name, "bench") {
				t.Errorf("%s imports the test package %s outside a test", name, local)
			}
		}
	}
}

// rowFor returns the row of mayImport that is nearest to name.
func rowFor(name string) ([]string, bool) {
	if row, ok := mayImport[name]; ok {
		return row, true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if row, ok := mayImport[dir+"/..."]; ok {
			return row, true
		}
	}
	return nil, false
}

// within reports whether the package name is dir or below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}

func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		prefix, subtree := strings.CutSuffix(p, "...")
		if p == name || subtree && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// readPackages parses every package below the module's root. It reads the files
// itself instead of asking "go list", so that go test's cache notices a change.
func readPackages(t *testing.T) map[string]*goPackage {
	t.Helper()
	pkgs := map[string]*goPackage{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(file))
		p := pkgs[dir]
		if p == nil {
			p = &goPackage{Imports: map[string]bool{}}
			pkgs[dir] = p
		}
		p.Doc += f.Doc.Text()
		for _, imp := range f.Imports {
			p.Imports[strings.Trim(imp.Path.Value, `"`)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}
