package expression

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// A Use is what an expression is for: it decides what the expression can see and
// what it has to evaluate to.
type Use int

// The uses.
const (
	// Condition is a validation or a match condition: bool.
	Condition Use = iota
	// Message is a message for the client: string. It has no authorizer.
	Message
	// Audit is the value of an audit annotation: string or null.
	Audit
	// Apply is an apply configuration: Object.
	Apply
	// Patch is a list of JSONPatch.
	Patch

	variable // of a policy: anything
)

// results returns what an expression of the use may evaluate to.
func (u Use) results() []*cel.Type {
	switch u {
	case Condition:
		return []*cel.Type{cel.BoolType}
	case Message:
		return []*cel.Type{cel.StringType}
	case Audit:
		return []*cel.Type{cel.StringType, cel.NullType}
	case Apply:
		return []*cel.Type{cel.ObjectType(mutation.ObjectTypeName)}
	case Patch:
		return []*cel.Type{cel.ListType(cel.ObjectType(mutation.JSONPatchTypeName))}
	case variable:
	}
	return nil
}

// sees returns what an expression of the use can see beyond what all can.
func (u Use) sees(o Options) sight {
	return sight{params: o.Params, authorizer: u != Message, patches: u == Apply || u == Patch}
}

// An Error is what is wrong with an expression. Its text is for whoever has
// written it.
type Error struct {
	Detail string
	// Internal says that it is not the expression's fault.
	Internal bool
}

func (e *Error) Error() string { return e.Detail }

// Options say what the expressions of a policy can see.
type Options struct {
	// Params says that the policy has parameters.
	Params bool
}

// An Env compiles the expressions of one policy. It belongs to one goroutine;
// the programs that it returns are safe for concurrent use.
type Env struct {
	o         Options
	base      func(sight) (*cel.Env, error) // without variables
	variables *apiservercel.DeclType        // nil until one is declared
	envs      map[sight]*cel.Env            // that know the variables
}

// New returns an Env without variables.
func New(o Options) *Env { return &Env{o: o, base: shared().env} }

// Declare compiles a variable of the policy. Expressions that are compiled
// afterwards can see it, even if the error is about it.
func (e *Env) Declare(name, source string) (*Program, error) {
	if e.variables == nil {
		e.variables = apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
		e.envs = map[sight]*cel.Env{}
	}
	p, err := e.Compile(source, variable)
	t := apiservercel.DynType
	if err == nil {
		t = declared(p.Type)
	}
	e.variables.Fields[name] = apiservercel.NewDeclField(name, t, true, nil, nil)
	return p, err
}

// VariablesType returns the type of the variable "variables"; nil without any.
func (e *Env) VariablesType() *apiservercel.DeclType { return e.variables }

// A Program is an expression ready to be evaluated.
type Program struct {
	cel.Program
	Source string
	Type   *cel.Type // of the result
	// Sees are the names of variables that the expression refers to.
	Sees map[string]bool
	// Loops says that it goes over lists or maps: how long it takes depends on
	// what it is given. It ends early when its context does.
	Loops bool
}

// Compile compiles an expression. The error is an *Error.
func (e *Env) Compile(source string, use Use) (*Program, error) {
	env, err := e.env(use.sees(e.o))
	if err != nil {
		return nil, &Error{Internal: true, Detail: fmt.Sprintf("unexpected error loading CEL environment: %v", err)}
	}
	ast, issues := env.Compile(source)
	if issues != nil && issues.Err() != nil {
		return nil, &Error{Detail: "compilation failed: " + issues.String()}
	}
	if err = fits(ast.OutputType(), use.results()); err != nil {
		return nil, err
	}
	prog, err := env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, &Error{Internal: true, Detail: "program instantiation failed: " + err.Error()}
	}
	p := &Program{Program: prog, Source: source, Type: ast.OutputType(), Sees: map[string]bool{}}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		if ref.Name != "" {
			p.Sees[ref.Name] = true
		}
	}
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(x celast.Expr) {
		p.Loops = p.Loops || x.Kind() == celast.ComprehensionKind
	}))
	return p, nil
}

func fits(t *cel.Type, wanted []*cel.Type) error {
	switch {
	case len(wanted) == 0 || slices.ContainsFunc(wanted, t.IsExactType):
		return nil
	case len(wanted) == 1:
		return &Error{Detail: fmt.Sprintf("must evaluate to %v but got %v", wanted[0], t)}
	default:
		return &Error{Detail: fmt.Sprintf("must evaluate to one of %v but got %v", wanted, t)}
	}
}

// sight is what expressions can see beyond what all can.
type sight struct{ params, authorizer, patches bool }

// env returns the environment for a sight.
func (e *Env) env(s sight) (*cel.Env, error) {
	if e.variables == nil {
		return e.base(s)
	}
	if env, ok := e.envs[s]; ok {
		return env, nil
	}
	base, err := e.base(s)
	if err != nil {
		return nil, err
	}
	env, err := extend(base, []*apiservercel.DeclType{e.variables}, cel.Variable(VariablesName, e.variables.CelType()))
	if err == nil {
		e.envs[s] = env
	}
	return env, err
}

// environments are those without a policy's variables, made when they are first
// needed, since each takes milliseconds.
type environments struct {
	mu   sync.Mutex // guards the field below
	made map[sight]*cel.Env
}

//nolint:gochecknoglobals // a cache of what never changes
var shared = sync.OnceValue(func() *environments { return &environments{made: map[sight]*cel.Env{}} })

func (x *environments) env(s sight) (*cel.Env, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if env, ok := x.made[s]; ok {
		return env, nil
	}
	env, err := newEnv(s, nil, nil)
	if err == nil {
		x.made[s] = env
	}
	return env, err
}

// newEnv makes an environment for a sight. The types of objects and parameters
// may be nil: then anything is known of them only when they are evaluated.
func newEnv(s sight, objects, params *apiservercel.DeclType) (*cel.Env, error) {
	base := environment.MustBaseEnvSet(version.MajorMinor(languageMajor, languageMinor)).NewExpressionsEnv()
	request, namespace := requestType(), namespaceType()
	types := []*apiservercel.DeclType{request, namespace}
	typed := func(t *apiservercel.DeclType) *cel.Type {
		if t == nil {
			return cel.DynType
		}
		types = append(types, t)
		return t.CelType()
	}
	object := typed(objects)
	opts := []cel.EnvOption{
		cel.Variable(Object, object),
		cel.Variable(OldObject, object),
		cel.Variable(Request, request.CelType()),
		cel.Variable(Namespace, namespace.CelType()),
	}
	if s.params {
		opts = append(opts, cel.Variable(Params, typed(params)))
	}
	if s.authorizer {
		opts = append(opts, cel.Variable(Authorizer, library.AuthorizerType), cel.Variable(ResourceAuthorizer, library.ResourceCheckType))
	}
	env, err := extend(base, types, opts...)
	if err == nil && s.patches {
		env, err = env.Extend(common.ResolverEnvOption(&mutation.DynamicTypeResolver{}), library.JSONPatch())
	}
	return env, err
}

// The version of Kubernetes whose libraries expressions may use.
const languageMajor, languageMinor = 1, 37

func extend(base *cel.Env, declared []*apiservercel.DeclType, opts ...cel.EnvOption) (*cel.Env, error) {
	provider := apiservercel.NewDeclTypeProvider(declared...)
	provider.SetRecognizeKeywordAsFieldName(true)
	more, err := provider.EnvOptions(base.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	return base.Extend(append(opts, more...)...)
}

// declared returns the type of a variable whose expression has the type t.
func declared(t *cel.Type) *apiservercel.DeclType {
	for _, simple := range []*apiservercel.DeclType{
		apiservercel.AnyType, apiservercel.BoolType, apiservercel.BytesType, apiservercel.DoubleType, apiservercel.DurationType,
		apiservercel.IntType, apiservercel.NullType, apiservercel.StringType, apiservercel.TimestampType, apiservercel.UintType,
	} {
		if t == simple.CelType() {
			return simple
		}
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch p := t.Parameters(); len(p) {
		case 1:
			return apiservercel.NewListType(declared(p[0]), -1)
		case 2:
			return apiservercel.NewMapType(declared(p[0]), declared(p[1]), -1)
		}
	}
	return apiservercel.DynType
}
