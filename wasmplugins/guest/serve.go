package guest

// An APIRequest is a request to a virtual API. It is valid during the call.
type APIRequest struct {
	// Verb is get, list, create, update or delete.
	Verb string
	// Resource is the plural.
	Resource, Namespace, Name string
	// Object is the body of create and update.
	Object Value

	Username string
	Groups   []string

	LabelSelector, FieldSelector string
	// Limit is the most items that a list should have, 0 for all; Continue is
	// what the list before has returned.
	Limit    int64
	Continue string
}

// An APIReply is the answer to an APIRequest. The zero reply is an empty list.
type APIReply struct {
	object   any
	items    []any
	next     string
	status   bool
	code     int
	reason   string
	message  string
	isObject bool
}

// Found answers with an object.
func Found(object any) APIReply { return APIReply{object: object, isObject: true} }

// Items answers a list. next is "" at its end.
func Items(items []any, next string) APIReply { return APIReply{items: items, next: next} }

// Failed answers with a status, such as 404, NotFound.
func Failed(code int, reason, message string) APIReply {
	return APIReply{status: true, code: code, reason: reason, message: message}
}

// NotFound answers that the object is not there.
func NotFound(r *APIRequest) APIReply {
	return Failed(404, "NotFound", r.Resource+` "`+r.Name+`" not found`)
}

var (
	onServe     func(*APIRequest) APIReply
	onConvert   func(object Value, apiVersion string) (any, error)
	onReconcile func(*ReconcileRequest) Reconciled
)

// OnServe registers the function that answers for a virtual API.
func OnServe(f func(*APIRequest) APIReply) { onServe = f }

// OnConvert registers the function that converts an object to another version
// of its kind. It returns the whole object, such as Edit makes; the apiVersion
// is set for it.
func OnConvert(f func(object Value, apiVersion string) (any, error)) { onConvert = f }

// OnReconcile registers the function that says what should be.
func OnReconcile(f func(*ReconcileRequest) Reconciled) { onReconcile = f }

// Serve answers a request with the registered function. It is what the exported
// function does, and serves tests.
func Serve(request []byte) []byte {
	must(onServe != nil, "OnServe")
	v := read(request)
	text := func(name string) string { return v.Get(name).Text() }
	limit, _ := v.Get("limit").Int()
	r := &APIRequest{
		Verb: text("verb"), Resource: text("resource"), Namespace: text("namespace"), Name: text("name"), Object: there(v.Get("object")),
		Username: v.Get("user", "username").Text(), LabelSelector: text("labelSelector"), FieldSelector: text("fieldSelector"),
		Limit: limit, Continue: text("continue"),
	}
	v.Get("user", "groups").Items(func(_ int, g Value) bool { r.Groups = append(r.Groups, g.Text()); return true })
	a := onServe(r)
	o := NewObject()
	switch {
	case a.status:
		o.Set("status", NewObject().Set("code", a.code).Set("reason", a.reason).Set("message", a.message))
	case a.isObject:
		o.Set("object", a.object)
	default:
		o.Set("items", a.items).Set("continue", a.next)
	}
	return encode(reply[:0], o)
}

// Convert answers a request with the registered function.
func Convert(request []byte) []byte {
	must(onConvert != nil, "OnConvert")
	v := read(request)
	desired := v.Get("desiredAPIVersion").Text()
	out := append(reply[:0], `{"objects":[`...)
	var failed error
	v.Get("objects").Items(func(i int, object Value) bool {
		converted, err := onConvert(object, desired)
		if err != nil {
			failed = err
			return false
		}
		if o, ok := converted.(*Object); ok {
			o.Set("apiVersion", desired)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = encode(out, converted)
		return true
	})
	if failed != nil {
		return encode(reply[:0], NewObject().Set("error", failed.Error()))
	}
	return append(out, "]}"...)
}

// A ReconcileRequest shows an object and what it owns. It is valid during the
// call.
type ReconcileRequest struct {
	Object Value
	// Owned are the objects that the last answers made.
	Owned Value
	// Deleting says that the object is going away: the answer is what should
	// still be, and Finalized when all is done.
	Deleting bool
}

// A Reconciled is what should be.
type Reconciled struct {
	// Objects are those that should be there; owned ones that are missing here
	// are deleted.
	Objects []any
	// Status is the object's; nil leaves it alone.
	Status any
	// RequeueAfterSeconds asks to be called again without a change.
	RequeueAfterSeconds int
	Finalized           bool
	// Error has the call made again later, ever more slowly.
	Error error
}

// Reconcile answers a request with the registered function.
func Reconcile(request []byte) []byte {
	must(onReconcile != nil, "OnReconcile")
	v := read(request)
	r := onReconcile(&ReconcileRequest{Object: v.Get("object"), Owned: v.Get("owned"), Deleting: v.Get("deleting").Bool()})
	o := NewObject()
	if r.Error != nil {
		return encode(reply[:0], o.Set("error", r.Error.Error()))
	}
	o.Set("objects", r.Objects)
	if r.Status != nil {
		o.Set("status", r.Status)
	}
	if r.RequeueAfterSeconds > 0 {
		o.Set("requeueAfterSeconds", r.RequeueAfterSeconds)
	}
	if r.Finalized {
		o.Set("finalized", true)
	}
	return encode(reply[:0], o)
}
