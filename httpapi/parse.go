package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/proa-project/proa/httpapi/request"
)

// parse finds out what the request asks for.
func (s *Server) parse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(w)
		if r.URL.RawPath != "" {
			// What is authorized and what is routed must be the same path.
			u := *r.URL
			u.RawPath = ""
			r.URL = &u
		}
		if r.URL.RawQuery != "" {
			q, err := url.ParseQuery(r.URL.RawQuery)
			if err != nil {
				s.fail(w, r, badRequest("%v", err))
				return
			}
			x.query = q
		}
		x.dynamic = s.parseInto(&x.state.Info, r, x.query)
		x.long = isLong(&x.state.Info, x.query)
		next.ServeHTTP(w, r)
	})
}

// isLong reports whether a request may take as long as it wants.
func isLong(info *request.Info, q url.Values) bool {
	if info.Resource == nil {
		return strings.HasPrefix(info.Path, "/debug/pprof/")
	}
	switch info.Subresource {
	case "exec", "attach", "portforward":
		return true
	case "log":
		return isTrue(q, "follow")
	}
	return info.Verb == "watch"
}

// isTrue reads a parameter as upstream does: what is there is true, unless it
// says otherwise.
func isTrue(q url.Values, name string) bool {
	v, ok := q[name]
	if !ok || len(v) == 0 {
		return false
	}
	return v[0] != "0" && !strings.EqualFold(v[0], "false")
}

// parseInto fills in info from the method, the path and the query. It returns
// the endpoint if that is of a kind that is not in the fixed table.
func (s *Server) parseInto(info *request.Info, r *http.Request, q url.Values) (dynamic *endpoint) {
	info.Verb, info.Path = strings.ToLower(r.Method), r.URL.Path
	group, version, rest, ok := splitGroupVersion(r.URL.Path)
	if !ok {
		return nil
	}
	ep := s.parseResource(info, group, version, rest)
	if ep == nil {
		return nil
	}
	if ep.kind != nil {
		dynamic = ep
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		switch {
		case info.Name != "":
			info.Verb = "get"
		case isTrue(q, "watch"):
			info.Verb = "watch"
		default:
			info.Verb = "list"
		}
	case http.MethodPost:
		info.Verb = "create"
	case http.MethodPut:
		info.Verb = "update"
	case http.MethodDelete:
		info.Verb = "delete"
		if info.Name == "" {
			info.Verb = "deletecollection"
		}
	}
	if info.Resource.Plural == "namespaces" && info.Resource.Group == "" {
		info.Namespace = info.Name
	}
	info.LabelSelector, info.FieldSelector = q.Get("labelSelector"), q.Get("fieldSelector")
	if info.Name == "" && info.FieldSelector != "" && info.Verb != "create" {
		// A selection by name is authorized as what it is.
		if sel, err := fields.ParseSelector(info.FieldSelector); err == nil {
			if name, ok := sel.RequiresExactMatch("metadata.name"); ok {
				info.Name = name
			}
		}
	}
	return dynamic
}

// splitGroupVersion takes the prefix off a path below /api or /apis.
func splitGroupVersion(path string) (group, version string, rest []string, ok bool) {
	if tail, isCore := strings.CutPrefix(path, "/api/"); isCore {
		parts := strings.Split(tail, "/")
		return "", parts[0], parts[1:], true
	}
	if tail, isGroup := strings.CutPrefix(path, "/apis/"); isGroup {
		parts := strings.Split(tail, "/")
		if len(parts) >= 2 {
			return parts[0], parts[1], parts[2:], true
		}
	}
	return "", "", nil, false
}

// parseResource fills in which resource the rest of a path names. It returns
// nil, and leaves info alone, if that is none.
func (s *Server) parseResource(info *request.Info, group, version string, rest []string) *endpoint {
	if n := len(rest); n == 0 || n > 5 {
		return nil
	}
	if slices.Contains(rest, "") {
		return nil
	}
	namespace := ""
	if rest[0] == "namespaces" && len(rest) >= 3 && !s.isSubresource(group, version, rest) {
		namespace, rest = rest[1], rest[2:]
	}
	if len(rest) > 3 {
		return nil
	}
	plural := rest[0]
	if plural == "bindings" && group == "" && version == "v1" && namespace != "" && len(rest) == 1 {
		plural = "pods" // see Server.bind
		info.Subresource = "binding"
	}
	ep := s.endpoints[group+"/"+version+"/"+plural]
	if ep == nil {
		ep = s.dynamicEndpoint(group, version, plural)
	}
	if ep == nil || (namespace != "" && !ep.Namespaced) || (ep.Namespaced && namespace == "" && len(rest) > 1) {
		info.Subresource = ""
		return nil
	}
	info.Resource, info.Namespace = ep.Resource.Resource, namespace
	if len(rest) > 1 {
		info.Name = rest[1]
	}
	if len(rest) > 2 {
		info.Subresource = rest[2]
	}
	return ep
}

// isSubresource tells /namespaces/x/status from /namespaces/x/pods.
func (s *Server) isSubresource(group, version string, rest []string) bool {
	ep := s.endpoints[group+"/"+version+"/namespaces"]
	return ep != nil && len(rest) == 3 && ep.Subresource(rest[2]) != nil
}
