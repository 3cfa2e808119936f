package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// A Kind is a kind of objects with its schema, without references in it.
type Kind struct {
	schema.GroupVersionKind
	Schema *spec.Schema
}

// Check compiles the expressions of a policy again, with the types of the
// objects that it is about, and returns what does not fit: members that are not
// there, values that cannot be compared. Params is the schema of the parameters,
// nil if there are none or it is not known.
func Check(p *admissionregistrationv1.ValidatingAdmissionPolicy, kinds []Kind, params *spec.Schema) []admissionregistrationv1.ExpressionWarning {
	var out []admissionregistrationv1.ExpressionWarning
	path := field.NewPath("spec", "validations")
	note := func(path *field.Path, source string) {
		if text := checkAll(p, kinds, params, source); text != "" {
			out = append(out, admissionregistrationv1.ExpressionWarning{FieldRef: path.String(), Warning: text})
		}
	}
	for i := range p.Spec.Validations {
		v := &p.Spec.Validations[i]
		note(path.Index(i).Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			note(path.Index(i).Child("messageExpression"), v.MessageExpression)
		}
	}
	return out
}

// checkAll checks one expression against all kinds.
func checkAll(p *admissionregistrationv1.ValidatingAdmissionPolicy, kinds []Kind, params *spec.Schema, source string) string {
	var found []string
	for i := range kinds {
		err := check(p, &kinds[i], params, source)
		if err == nil {
			continue
		}
		text := err.Error()
		if fault := (*Error)(nil); !errors.As(err, &fault) || fault.Internal {
			text = "type checking error: " + text
		}
		found = append(found, fmt.Sprintf("%v: %s\n", kinds[i].GroupVersionKind, strings.TrimPrefix(text, "compilation failed: ")))
	}
	return strings.Join(found, "\n")
}

func check(p *admissionregistrationv1.ValidatingAdmissionPolicy, kind *Kind, params *spec.Schema, source string) error {
	object, param := typeOf(kind.Schema, "Object"), typeOf(params, "Params")
	made := map[sight]*cel.Env{}
	e := &Env{o: Options{Params: p.Spec.ParamKind != nil}, base: func(s sight) (*cel.Env, error) {
		if have := made[s]; have != nil {
			return have, nil
		}
		env, err := newEnv(s, object, param)
		made[s] = env
		return env, err
	}}
	for i := range p.Spec.Variables {
		_, _ = e.Declare(p.Spec.Variables[i].Name, p.Spec.Variables[i].Expression) // whoever uses it is told
	}
	_, err := e.Compile(source, variable)
	return err
}

// typeOf returns the type of objects with a schema; nil if there is nothing to
// know.
func typeOf(s *spec.Schema, name string) *apiservercel.DeclType {
	if s == nil {
		return nil
	}
	t := common.SchemaDeclType(&openapi.Schema{Schema: s}, true)
	if t == nil {
		return nil
	}
	return t.MaybeAssignTypeName("checked." + name)
}
