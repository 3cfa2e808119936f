// Package openapi makes the documents that describe the API: OpenAPI v3 and
// v2, and discovery. The OpenAPI schemas come from the Go types of the kinds;
// the same schemas validate request bodies.
package openapi

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/proa-project/proa/api"
)

type gvk = schema.GroupVersionKind

const gvkKey = "x-kubernetes-group-version-kind"

func gvkExtension(k gvk) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

// Documents describe the kinds of a server. They are made when they are first
// asked for, and kept compressed. They are safe for use by several goroutines.
type Documents struct {
	fixed   []*api.Resource
	version string

	current atomic.Pointer[view]
	extend  sync.Mutex // held while there is a new view in the making

	validators validators
}

// A view is the documents of the kinds at one moment.
type view struct {
	resources []*api.Resource
	kinds     map[*api.Resource]Kind // those of resources that are not fixed
	version   string

	v3   map[string]*document // by path, without the first slash: "api/v1"
	root *document            // the list of v3
	v2   *document

	discovery *discovery
}

// Build returns the documents of the resources. Version is what they say of
// the server's version; nil is for none.
func Build(resources []*api.Resource, v *version.Info) (*Documents, error) {
	if len(resources) == 0 {
		return nil, errors.New("build OpenAPI documents: no resources")
	}
	d := &Documents{
		fixed:      resources,
		version:    "unversioned",
		validators: validators{resources: resources},
	}
	if v != nil && v.GitVersion != "" {
		d.version = v.GitVersion
	}
	d.Extend(nil)
	return d, nil
}

// Handler serves discovery and the OpenAPI documents: /api, /apis, what is
// below them down to a version, and /openapi.
func (d *Documents) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeStatus(w, errMethodNotAllowed)
			return
		}
		v := d.current.Load()
		path := strings.TrimSuffix(r.URL.Path, "/")
		switch {
		case path == "/openapi/v2":
			d.serveOpenAPI(w, r, v.v2, v2Types)
		case path == "/openapi/v3":
			d.serveOpenAPI(w, r, v.root, []string{mediaJSON})
		case strings.HasPrefix(path, "/openapi/v3/"):
			doc := v.v3[strings.TrimPrefix(path, "/openapi/v3/")]
			if doc == nil {
				writeStatus(w, errNotFound)
				return
			}
			d.serveOpenAPI(w, r, doc, v3Types)
		default:
			v.discovery.serve(w, r, path)
		}
	})
}
