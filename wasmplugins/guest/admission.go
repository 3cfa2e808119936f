package guest

import (
	"errors"
	"strconv"
)

// A Phase is a part of admission.
type Phase string

// The phases. Only in Mutate may an answer change the object.
const (
	Mutate   Phase = "mutate"
	Validate Phase = "validate"
)

// A Request is a write on its way to storage. It is valid during the call.
type Request struct {
	Phase    Phase
	Settings Value // the binding's spec.settings, missing if there are none

	// Object is the new object, missing on DELETE; OldObject is the stored
	// one, missing on CREATE.
	Object, OldObject Value

	all Value // an AdmissionRequest of admission.k8s.io/v1
}

// NewRequest reads a request as the server sends it:
//
//	{"phase":"mutate","settings":{},"request":{"operation":"CREATE","object":{}}}
func NewRequest(b []byte) *Request {
	r := &Request{}
	r.read(Parse(b))
	return r
}

func (r *Request) read(v Value) {
	*r = Request{Phase: Validate, Settings: v.field("settings"), all: v.field("request")}
	if v.field("phase").Is("mutate") {
		r.Phase = Mutate
	}
	r.Object = there(r.all.Get("object"))
	r.OldObject = there(r.all.Get("oldObject"))
}

func there(v Value) Value {
	if v.IsNull() {
		return Value{}
	}
	return v
}

// Field returns a field of the AdmissionRequest by its path, such as
// Field("userInfo", "username").
func (r *Request) Field(path ...string) Value { return r.all.Get(path...) }

// Operation is CREATE, UPDATE, DELETE or CONNECT.
func (r *Request) Operation() string { return r.all.Get("operation").Text() }

// Kind is the object's kind, such as "Pod".
func (r *Request) Kind() string { return r.all.Get("kind", "kind").Text() }

// Resource is the plural, such as "pods".
func (r *Request) Resource() string { return r.all.Get("resource", "resource").Text() }

// SubResource is the subresource, such as "status", or "".
func (r *Request) SubResource() string { return r.all.Get("subResource").Text() }

// Namespace is the object's namespace, "" for a cluster's object.
func (r *Request) Namespace() string { return r.all.Get("namespace").Text() }

// Name is the object's name; it can be "" on CREATE.
func (r *Request) Name() string { return r.all.Get("name").Text() }

// Username is who asks.
func (r *Request) Username() string { return r.all.Get("userInfo", "username").Text() }

// DryRun reports whether the write will not be stored.
func (r *Request) DryRun() bool { return r.all.Get("dryRun").Bool() }

// An Answer is what becomes of a request. The zero Answer refuses without a
// word; start from Allow, Deny or Change.
type Answer struct {
	Allowed bool
	Message string // shown to the user when refused
	Code    int    // HTTP status when refused; 0 is 403
	Reason  string // metav1.StatusReason when refused

	// Warnings are shown to the user, Annotations go to the audit log.
	Warnings    []string
	Annotations map[string]string

	// Patch or Object change the object, not both.
	Patch  *Patch
	Object []byte // the whole object, as JSON
}

// Allow lets the request pass.
func Allow() Answer { return Answer{Allowed: true} }

// Deny refuses the request with status 403.
func Deny(message string) Answer { return Answer{Message: message} }

// Change lets the request pass with changes. An empty patch changes nothing.
func Change(p *Patch) Answer { return Answer{Allowed: true, Patch: p} }

// Warn adds a warning.
func (a Answer) Warn(text string) Answer {
	a.Warnings = append(a.Warnings, text)
	return a
}

// Annotate adds an audit annotation.
func (a Answer) Annotate(key, value string) Answer {
	if a.Annotations == nil {
		a.Annotations = map[string]string{}
	}
	a.Annotations[key] = value
	return a
}

func (a *Answer) encode(out []byte) []byte {
	out = append(out, `{"allowed":`...)
	out = strconv.AppendBool(out, a.Allowed)
	if !a.Allowed {
		out = append(out, `,"status":{"message":`...)
		out = quote(out, a.Message)
		if a.Code != 0 {
			out = append(out, `,"code":`...)
			out = strconv.AppendInt(out, int64(a.Code), 10)
		}
		if a.Reason != "" {
			out = append(out, `,"reason":`...)
			out = quote(out, a.Reason)
		}
		out = append(out, '}')
	}
	if len(a.Warnings) > 0 {
		out = append(out, `,"warnings":`...)
		out = encode(out, a.Warnings)
	}
	if len(a.Annotations) > 0 {
		out = append(out, `,"auditAnnotations":`...)
		out = encode(out, a.Annotations)
	}
	if a.Patch != nil && a.Patch.n > 0 {
		out = append(out, `,"patch":`...)
		out = append(out, a.Patch.b...)
		out = append(out, ']')
	}
	if a.Object != nil {
		out = append(out, `,"object":`...)
		out = append(out, a.Object...)
	}
	return append(out, '}')
}

// What the plugin has registered.
var (
	onAdmit     func(*Request) Answer
	onConfigure func(Value) error
)

// OnAdmit registers the function that judges requests. Call it in an init
// function.
func OnAdmit(f func(*Request) Answer) { onAdmit = f }

// OnConfigure registers the function that gets the settings once, before the
// first request; a variable that it sets stays set for all requests. With its
// error the binding is not ready.
func OnConfigure(f func(settings Value) error) { onConfigure = f }

// Admit answers a request with the registered function, as the server would
// have it. It is what the exported function does, and serves tests.
func Admit(request []byte) []byte {
	if onAdmit == nil {
		panic("guest: no function was registered with OnAdmit")
	}
	current.doc.read(request)
	current.request.read(current.doc.root())
	a := onAdmit(&current.request)
	return a.encode(reply[:0])
}

// Configure hands settings to the registered function.
func Configure(settings []byte) error {
	if onConfigure == nil {
		return nil
	}
	return onConfigure(Parse(settings))
}

// ErrSettings can be wrapped by functions that refuse settings.
var ErrSettings = errors.New("invalid settings")

// current is the request at hand. The index has room for a usual one, so that a
// call need not allocate: each begins in the state after configuration.
var current = struct {
	doc     document
	request Request
}{doc: document{index: make([]uint64, 0, 4096)}}

// reply is where answers are written; it is kept for the next.
var reply = make([]byte, 0, 4096)
