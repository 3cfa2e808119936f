package expression_test

import (
	"strings"
	"testing"

	"github.com/proa-project/proa/api/expression"
)

func TestCompile(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		use          expression.Use
		params       bool
		fault        string // part of the error; "" for none
	}{
		{name: "condition", source: "object.spec.replicas <= 5"},
		{name: "presence", source: "has(object.metadata.labels) && request.operation == 'CREATE' && namespaceObject.metadata.name != ''"},
		{name: "libraries", source: "quantity(object.spec.a).isLessThan(quantity('1Gi')) && isURL('http://x') && ip('::1').isLoopback() && object.spec.l.isSorted() && semver('1.2.3').major() == 1"},
		{name: "authorizer", source: "authorizer.group('apps').resource('deployments').check('create').allowed() && authorizer.requestResource.check('x').allowed()"},
		{name: "syntax", source: "object.spec.(", fault: "compilation failed: ERROR: <input>:1:13: Syntax error"},
		{name: "unknown", source: "objekt.spec", fault: "undeclared reference to 'objekt'"},
		{name: "no such member", source: "request.colour == 'x'", fault: "undefined field 'colour'"},
		{name: "not a bool", source: "'a'", fault: "must evaluate to bool but got string"},
		{name: "not sure to be a bool", source: "object.spec", fault: "must evaluate to bool but got dyn"},
		{name: "no params", source: "params.max > 1", fault: "undeclared reference to 'params'"},
		{name: "params", source: "params.max > 1", params: true},
		{name: "no variables", source: "variables.a > 1", fault: "undeclared reference to 'variables'"},
		{name: "message", source: "'too many: ' + string(object.spec.replicas)", use: expression.Message},
		{name: "message asks", source: "string(authorizer.path('/').check('get').allowed())", use: expression.Message, fault: "undeclared reference to 'authorizer'"},
		{name: "annotation", source: "has(object.a) ? object.a : null", use: expression.Audit, fault: "must evaluate to one of [string null_type] but got dyn"},
		{name: "annotation null", source: "null", use: expression.Audit},
		{name: "apply", source: "Object{spec: Object.spec{replicas: 3}}", use: expression.Apply},
		{name: "apply nothing", source: "{'spec': 1}", use: expression.Apply, fault: "must evaluate to Object but got map(string, int)"},
		{name: "patch", source: "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'x'}]", use: expression.Patch},
		{name: "patch of another type", source: "[JSONPatch{op: 1}]", use: expression.Patch, fault: "expected type of field 'op' is 'string' but provided type is 'int'"},
		{name: "patch elsewhere", source: "JSONPatch{op: 'a'} == JSONPatch{op: 'a'}", fault: "undeclared reference to 'JSONPatch'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := expression.New(expression.Options{Params: tt.params}).Compile(tt.source, tt.use)
			switch {
			case err == nil && tt.fault != "":
				t.Errorf("it compiles, want %q", tt.fault)
			case err != nil && (tt.fault == "" || !strings.Contains(err.Error(), tt.fault)):
				t.Errorf("got %v, want %q", err, tt.fault)
			}
		})
	}
}

// Variables are known with their types to the expressions after them.
func TestDeclare(t *testing.T) {
	env := expression.New(expression.Options{})
	if _, err := env.Declare("two", "1 + 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Declare("names", "object.spec.containers.map(c, string(c.name))"); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Declare("later", "variables.two + 1"); err != nil {
		t.Error(err)
	}
	p, err := env.Compile("variables.names.exists(n, n == 'a') && variables.later == 3", expression.Condition)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Sees["variables"] || p.Sees["request"] || !p.Loops {
		t.Errorf("it sees %v, loops: %v", p.Sees, p.Loops)
	}
	for source, fault := range map[string]string{
		"variables.two == 'x'":   "found no matching overload for '_==_' applied to '(int, string)'",
		"variables.three > 1":    "undefined field 'three'",
		"variables.names[0] > 1": "found no matching overload for '_>_' applied to '(string, int)'",
	} {
		if _, err := env.Compile(source, expression.Condition); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: got %v, want %q", source, err, fault)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := expression.New(expression.Options{}).Compile("object.spec.replicas <= 5", expression.Condition); err != nil {
			b.Fatal(err)
		}
	}
}
