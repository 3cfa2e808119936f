package httpapi

import (
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/httpapi/admission"
)

// connect asks admission whether a connection may be made to a pod: policies
// see the options that the client has put into the query, as upstream's do.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, c *call) error {
	options, err := connectOptions(c.info.Subresource, c.query())
	if err != nil {
		return err
	}
	rc := c.registryCall()
	err = c.Admit(r.Context(), rc, admission.Connect, options)
	writeWarnings(w, rc.Warnings)
	return err
}

// connectOptions makes the object of a connection.
func connectOptions(subresource string, q url.Values) (runtime.Object, error) {
	meta := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	switch subresource {
	case "exec":
		o := &corev1.PodExecOptions{TypeMeta: meta("PodExecOptions"), Container: q.Get("container"), Command: q["command"]}
		return o, flags(q, map[string]*bool{"stdin": &o.Stdin, "stdout": &o.Stdout, "stderr": &o.Stderr, "tty": &o.TTY})
	case "attach":
		o := &corev1.PodAttachOptions{TypeMeta: meta("PodAttachOptions"), Container: q.Get("container")}
		return o, flags(q, map[string]*bool{"stdin": &o.Stdin, "stdout": &o.Stdout, "stderr": &o.Stderr, "tty": &o.TTY})
	}
	o := &corev1.PodPortForwardOptions{TypeMeta: meta("PodPortForwardOptions")}
	for _, v := range q["ports"] {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return nil, badRequest("ports: %v", err)
		}
		o.Ports = append(o.Ports, int32(n))
	}
	return o, nil
}

// flags reads booleans of a query, which may stand there without a value.
func flags(q url.Values, into map[string]*bool) error {
	for name, p := range into {
		switch v := q.Get(name); v {
		case "":
			*p = q.Has(name)
		default:
			b, err := strconv.ParseBool(v)
			if err != nil {
				return badRequest("%s: %v", name, err)
			}
			*p = b
		}
	}
	return nil
}
