// Package openapi makes the documents that describe the API: OpenAPI v3 and
// v2, and discovery. The OpenAPI schemas come from the Go types of the kinds;
// the same schemas validate request bodies.
package openapi

import (
	"errors"
	"net/http"
	"strings"

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
	resources []*api.Resource
	versions  []schema.GroupVersion // in the order of resources
	version   string

	v3   map[string]*document // by path, without the first slash: "api/v1"
	root *document            // the list of v3
	v2   *document

	discovery *discovery

	validators validators
}

// Build returns the documents of the resources. Version is what they say of
// the server's version; nil is for none.
func Build(resources []*api.Resource, v *version.Info) (*Documents, error) {
	if len(resources) == 0 {
		return nil, errors.New("build OpenAPI documents: no resources")
	}
	d := &Documents{
		resources:  resources,
		version:    "unversioned",
		v3:         map[string]*document{},
		validators: validators{resources: resources},
	}
	if v != nil && v.GitVersion != "" {
		d.version = v.GitVersion
	}
	for _, r := range resources {
		gv := r.GroupVersion()
		path := strings.TrimPrefix(prefix(gv.Group, gv.Version), "/")
		if d.v3[path] != nil {
			continue
		}
		d.versions = append(d.versions, gv)
		d.v3[path] = newDocument(func() ([]byte, error) { return d.encodeV3(&gv) }, protobufV3)
	}
	d.root = newDocument(d.encodeRoot, nil)
	d.v2 = newDocument(d.encodeV2, protobufV2)
	d.discovery = newDiscovery(resources)
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
		path := strings.TrimSuffix(r.URL.Path, "/")
		switch {
		case path == "/openapi/v2":
			d.serveOpenAPI(w, r, d.v2, v2Types)
		case path == "/openapi/v3":
			d.serveOpenAPI(w, r, d.root, []string{mediaJSON})
		case strings.HasPrefix(path, "/openapi/v3/"):
			doc := d.v3[strings.TrimPrefix(path, "/openapi/v3/")]
			if doc == nil {
				writeStatus(w, errNotFound)
				return
			}
			d.serveOpenAPI(w, r, doc, v3Types)
		default:
			d.discovery.serve(w, r, path)
		}
	})
}
