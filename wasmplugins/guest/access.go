package guest

// An AccessRequest asks whether somebody may do something. It is the spec of a
// SubjectAccessReview of authorization.k8s.io/v1, and valid during the call.
type AccessRequest struct{ spec Value }

// Field returns a field of the spec by its path.
func (r *AccessRequest) Field(path ...string) Value { return r.spec.Get(path...) }

// Username is who wants to do it.
func (r *AccessRequest) Username() string { return r.spec.Get("user").Text() }

// InGroup reports whether the user is a member of a group.
func (r *AccessRequest) InGroup(name string) (in bool) {
	r.spec.Get("groups").Items(func(_ int, g Value) bool { in = g.Is(name); return !in })
	return in
}

// attribute reads a field that stands in one of two places.
func (r *AccessRequest) attribute(name string) string {
	if v := r.spec.Get("resourceAttributes"); !v.IsNull() {
		return v.Get(name).Text()
	}
	return r.spec.Get("nonResourceAttributes", name).Text()
}

// Verb is what is to be done, such as get or create.
func (r *AccessRequest) Verb() string { return r.attribute("verb") }

// Path is the path of a request for something that is no resource, or "".
func (r *AccessRequest) Path() string { return r.spec.Get("nonResourceAttributes", "path").Text() }

// Group is the API group of the resource.
func (r *AccessRequest) Group() string { return r.attribute("group") }

// Resource is the plural, such as "pods".
func (r *AccessRequest) Resource() string { return r.attribute("resource") }

// SubResource is the subresource, such as "status", or "".
func (r *AccessRequest) SubResource() string { return r.attribute("subresource") }

// Namespace is the object's namespace, "" for all.
func (r *AccessRequest) Namespace() string { return r.attribute("namespace") }

// Name is the object's name, "" for all.
func (r *AccessRequest) Name() string { return r.attribute("name") }

// A Decision is the answer to an AccessRequest. The zero Decision is no
// opinion.
type Decision struct{ decision, reason string }

// AllowAccess says that it may be done.
func AllowAccess(reason string) Decision { return Decision{"Allow", reason} }

// DenyAccess says that it may not be done, whatever others say.
func DenyAccess(reason string) Decision { return Decision{"Deny", reason} }

// NoOpinion leaves it to others.
func NoOpinion() Decision { return Decision{} }

// A User is whose token it is.
type User struct {
	Username, UID string
	Groups        []string
	Extra         map[string][]string
}

var (
	onAuthorize    func(*AccessRequest) Decision
	onAuthenticate func(token string, audiences []string) (*User, error)
)

// OnAuthorize registers the function that says who may do what.
func OnAuthorize(f func(*AccessRequest) Decision) { onAuthorize = f }

// OnAuthenticate registers the function that says whose a token is: nil if it
// does not know the token, an error if it cannot say.
func OnAuthenticate(f func(token string, audiences []string) (*User, error)) { onAuthenticate = f }

// Authorize answers a request with the registered function. It is what the
// exported function does, and serves tests.
func Authorize(request []byte) []byte {
	must(onAuthorize != nil, "OnAuthorize")
	d := onAuthorize(&AccessRequest{read(request).Get("spec")})
	if d.decision == "" {
		d.decision = "NoOpinion"
	}
	return encode(reply[:0], NewObject().Set("decision", d.decision).Set("reason", d.reason))
}

// Authenticate answers a request with the registered function.
func Authenticate(request []byte) []byte {
	must(onAuthenticate != nil, "OnAuthenticate")
	v := read(request)
	var audiences []string
	v.Get("audiences").Items(func(_ int, a Value) bool { audiences = append(audiences, a.Text()); return true })
	user, err := onAuthenticate(v.Get("token").Text(), audiences)
	o := NewObject().Set("authenticated", user != nil && err == nil)
	if err != nil {
		o.Set("error", err.Error())
	} else if user != nil {
		u := NewObject().Set("username", user.Username).Set("uid", user.UID).Set("groups", user.Groups)
		extra := NewObject()
		for key, values := range user.Extra {
			extra.Set(key, values)
		}
		o.Set("user", u.Set("extra", extra))
	}
	return encode(reply[:0], o)
}

// read makes input the document of the call.
func read(input []byte) Value {
	current.doc.read(input)
	return current.doc.root()
}

func must(registered bool, with string) {
	if !registered {
		panic("guest: no function was registered with " + with)
	}
}
