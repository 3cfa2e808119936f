package guest

import (
	"encoding/base64"
	"errors"
)

// Call calls an operation of the server with a request in JSON. The error has
// the server's text. What was not granted does not return: the call of the
// plugin ends with CapabilityDenied.
//
// The plugin's manifest has to want the operation, and the binding to grant it.
func Call(operation string, request []byte) (Value, error) {
	b, ok := hostCall(operation, request)
	if !ok {
		return Value{}, errors.New(string(b))
	}
	return Parse(b), nil
}

// A Resource is a kind of the API.
type Resource struct{ Group, Version, Resource string }

// object makes a request of pairs of keys and values, without the empty ones.
func object(pairs ...string) []byte {
	o := NewObject()
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			o.Set(pairs[i], pairs[i+1])
		}
	}
	return o.JSON()
}

// KubeGet reads an object, as far as it was granted.
func KubeGet(r Resource, namespace, name string) (Value, error) {
	return Call("kube.get", object("group", r.Group, "version", r.Version, "resource", r.Resource, "namespace", namespace, "name", name))
}

// KubeList reads the objects of a namespace, or of all with "", that match a
// label selector.
func KubeList(r Resource, namespace, labelSelector string) (items Value, err error) {
	v, err := Call("kube.list", object("group", r.Group, "version", r.Version, "resource", r.Resource, "namespace", namespace, "labelSelector", labelSelector))
	return v.Get("items"), err
}

// CanI reports whether the plugin's ServiceAccount may do something.
func CanI(verb string, r Resource, namespace, name string) (bool, error) {
	v, err := Call("authz.can_i", object("verb", verb, "group", r.Group, "resource", r.Resource, "namespace", namespace, "name", name))
	return v.Get("allowed").Bool(), err
}

// Now returns the time in nanoseconds since 1970.
func Now() (int64, error) {
	v, err := Call("clock.wall", []byte("{}"))
	n, _ := v.Get("unixNanos").Int()
	return n, err
}

// Random returns n random bytes.
func Random(n int) ([]byte, error) {
	v, err := Call("random", NewObject().Set("bytes", n).JSON())
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(v.Get("base64").Text())
}

// An HTTPReply is the answer of another server.
type HTTPReply struct {
	Status  int
	Headers Value // an object of texts
	Body    []byte
}

// HTTP makes a request to a host that was granted.
func HTTP(method, url string, headers map[string]string, body []byte) (*HTTPReply, error) {
	o := NewObject().Set("method", method).Set("url", url)
	if len(headers) > 0 {
		o.Set("headers", headers)
	}
	if len(body) > 0 {
		o.Set("body", base64.StdEncoding.EncodeToString(body))
	}
	v, err := Call("http", o.JSON())
	if err != nil {
		return nil, err
	}
	status, _ := v.Get("status").Int()
	b, err := base64.StdEncoding.DecodeString(v.Get("body").Text())
	return &HTTPReply{int(status), v.Get("headers"), b}, err
}

// Config reads the data of a ConfigMap.
func Config(namespace, name string) (data Value, err error) {
	v, err := Call("config.read", object("namespace", namespace, "name", name))
	return v.Get("data"), err
}
