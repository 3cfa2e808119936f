// Opac is OPA for the tests of this package: it compiles policies to
// WebAssembly, and evaluates them itself, for comparison. It stands in a module
// of its own, so that OPA is no dependency of the program's.
//
// It reads JSON jobs from its standard input and answers each with a line.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/compile"
	"github.com/open-policy-agent/opa/v1/rego"
)

type job struct {
	Policy      string   `json:"policy"`
	Entrypoints []string `json:"entrypoints"` // for compilation
	Query       string   `json:"query"`       // for evaluation
	Input       any      `json:"input"`
	Data        any      `json:"data"`
	Now         int64    `json:"now"`
}

type answer struct {
	Wasm   []byte `json:"wasm,omitempty"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	in.UseNumber()
	for {
		var j job
		if err := in.Decode(&j); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		var a answer
		var err error
		if len(j.Entrypoints) > 0 {
			a.Wasm, err = compileWasm(&j)
		} else {
			a.Result, err = evaluate(&j)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			log.Fatal(err)
		}
	}
}

func compileWasm(j *job) ([]byte, error) {
	m, err := ast.ParseModule("policy.rego", j.Policy)
	if err != nil {
		return nil, err
	}
	b := &bundle.Bundle{Modules: []bundle.ModuleFile{{URL: "policy.rego", Path: "/policy.rego", Parsed: m, Raw: []byte(j.Policy)}}, Data: map[string]any{}}
	c := compile.New().WithBundle(b).WithTarget(compile.TargetWasm).WithEntrypoints(j.Entrypoints...).WithEnablePrintStatements(true)
	if err := c.Build(context.Background()); err != nil {
		return nil, err
	}
	for _, w := range c.Bundle().WasmModules {
		return w.Raw, nil
	}
	return nil, errors.New("no module came out")
}

func evaluate(j *job) (any, error) {
	options := []func(*rego.Rego){
		rego.Query(j.Query), rego.Input(j.Input), rego.Time(time.Unix(0, j.Now)), rego.Data(map[string]any{}),
	}
	if data, ok := j.Data.(map[string]any); ok {
		options = append(options, rego.Data(data))
	}
	if j.Policy != "" {
		options = append(options, rego.Module("policy.rego", j.Policy))
	}
	set, err := rego.New(options...).Eval(context.Background())
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, r := range set {
		out = append(out, map[string]any{"result": r.Expressions[0].Value})
	}
	// As a policy's reply is written: without escapes for HTML.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return json.RawMessage(strings.TrimSpace(b.String())), nil
}
