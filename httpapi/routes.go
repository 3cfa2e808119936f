package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/proa-project/proa/api"
)

// routes mounts everything that the server answers.
func (s *Server) routes() chi.Router {
	r := chi.NewRouter()
	for _, filter := range s.filters() {
		r.Use(filter)
	}
	r.NotFound(s.serveDynamic) // what has no route may be of a kind that appeared at run time
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errNoMethod) })

	for _, row := range s.cfg.Resources {
		s.mount(r, s.endpoints[row.Group+"/"+row.Version+"/"+row.Plural])
	}
	if pods := s.endpoints["/v1/pods"]; pods != nil {
		r.Post("/api/v1/namespaces/{namespace}/bindings", s.resource(pods, s.bind))
	}

	documents := s.cfg.Documents.Handler()
	for _, path := range []string{
		"/api", "/api/", "/api/v1", "/api/v1/", "/apis", "/apis/", "/apis/{group}", "/apis/{group}/", "/apis/{group}/{version}", "/apis/{group}/{version}/",
		"/openapi/*",
	} {
		r.Method(http.MethodGet, path, documents)
	}
	s.mountHealth(r)
	for pattern, h := range s.cfg.Raw {
		if method, path, ok := strings.Cut(pattern, " "); ok {
			r.Method(method, path, h)
		}
	}
	return r
}

// mount mounts the paths of one resource.
func (s *Server) mount(r chi.Router, ep *endpoint) {
	base := "/apis/" + ep.Group + "/" + ep.Version + "/"
	if ep.Group == "" {
		base = "/api/" + ep.Version + "/"
	}
	all, some := base+ep.Plural, base+ep.Plural
	if ep.Namespaced {
		some = base + "namespaces/{namespace}/" + ep.Plural
	}
	one := some + "/{name}"

	on := func(verbName, method, path string, v verb) {
		if slices.Contains(ep.Verbs, verbName) {
			r.Method(method, path, s.resource(ep, v))
		}
	}
	on("list", http.MethodGet, all, s.listOrWatch)
	if some != all {
		on("list", http.MethodGet, some, s.listOrWatch)
	}
	if ep.CreateOnly {
		on("create", http.MethodPost, some, s.answer(s.answerOf(ep)))
		return
	}
	on("create", http.MethodPost, some, s.create)
	on("deletecollection", http.MethodDelete, some, s.deleteCollection)
	on("get", http.MethodGet, one, s.get)
	on("update", http.MethodPut, one, s.update)
	on("patch", http.MethodPatch, one, s.patch)
	on("delete", http.MethodDelete, one, s.delete)

	for i := range ep.Subresources {
		s.mountSubresource(r, ep, &ep.Subresources[i], one+"/"+ep.Subresources[i].Name)
	}
}

// mountSubresource mounts the paths of one subresource.
func (s *Server) mountSubresource(r chi.Router, ep *endpoint, sub *api.Subresource, path string) {
	name := ep.Plural
	if ep.Group != "" {
		name += "." + ep.Group
	}
	if h, ok := s.cfg.Raw[name+"/"+sub.Name]; ok {
		for _, v := range sub.Verbs {
			r.Method(methods[v], path, h)
		}
		return
	}
	for _, v := range sub.Verbs {
		if answer := s.subresource(ep, sub.Name, v); answer != nil {
			r.Method(methods[v], path, s.resource(ep, answer))
		}
	}
}

// methods says by which HTTP method a verb comes.
var methods = map[string]string{ //nolint:gochecknoglobals // a constant in all but name
	"get": http.MethodGet, "list": http.MethodGet, "watch": http.MethodGet, "create": http.MethodPost,
	"update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete, "deletecollection": http.MethodDelete,
}

// subresource returns who answers a verb on a subresource, or nil.
func (s *Server) subresource(_ *endpoint, name, verbName string) verb {
	table := map[string]map[string]verb{
		"status":      {"get": s.get, "update": s.update, "patch": s.patch},
		"finalize":    {"update": s.update},
		"scale":       {"get": s.getScale, "update": s.updateScale, "patch": s.patchScale},
		"binding":     {"create": s.bind},
		"eviction":    {"create": s.evict},
		"token":       {"create": s.token},
		"log":         {"get": s.podLog},
		"exec":        {"get": s.podStream, "create": s.podStream},
		"attach":      {"get": s.podStream, "create": s.podStream},
		"portforward": {"get": s.podStream, "create": s.podStream},
	}
	return table[name][verbName]
}
