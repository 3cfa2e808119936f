package openapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
)

// discovery says which resources there are: as one document about all of
// them, and as lists by group and version.
type discovery struct {
	groups     []string                           // without the core group, in order
	versions   map[string][]string                // by group, the best first
	resources  map[schema.GroupVersion]*resources // lists
	aggregated map[string]*document               // by path: /api, /apis
}

type resources = metav1.APIResourceList

// aggregatedType is the media type of the document about all resources.
const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func newDiscovery(rows []*api.Resource) *discovery {
	d := &discovery{versions: map[string][]string{}, resources: map[schema.GroupVersion]*resources{}}
	for _, r := range rows {
		if !slices.Contains(d.versions[r.Group], r.Version) {
			d.versions[r.Group] = append(d.versions[r.Group], r.Version)
			d.resources[r.GroupVersion()] = &resources{
				TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
				GroupVersion: r.GroupVersion().String(),
			}
			if r.Group != "" && !slices.Contains(d.groups, r.Group) {
				d.groups = append(d.groups, r.Group)
			}
		}
		list := d.resources[r.GroupVersion()]
		list.APIResources = append(list.APIResources, apiResources(r)...)
	}
	for _, list := range d.resources {
		slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	}
	d.aggregated = map[string]*document{
		"/api":  newDocument(func() ([]byte, error) { return json.Marshal(aggregate(rows, []string{""})) }, nil),
		"/apis": newDocument(func() ([]byte, error) { return json.Marshal(aggregate(rows, d.groups)) }, nil),
	}
	return d
}

// apiResources returns the entries of a resource and its subresources.
func apiResources(r *api.Resource) []metav1.APIResource {
	list := []metav1.APIResource{{
		Name: r.Plural, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind,
		Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
	}}
	if !r.CreateOnly {
		list[0].StorageVersionHash = storageVersionHash(r.Stored().GVK())
	}
	for _, s := range r.Subresources {
		e := metav1.APIResource{Name: r.Plural + "/" + s.Name, Namespaced: r.Namespaced, Kind: r.Kind, Verbs: s.Verbs}
		if s.Kind != "" {
			e.Kind = s.Kind
			if gv := (schema.GroupVersion{Group: s.Group, Version: s.Version}); gv != r.GroupVersion() {
				e.Group, e.Version = gv.Group, gv.Version
			}
		}
		list = append(list, e)
	}
	return list
}

// storageVersionHash names the form in which objects are stored, as upstream
// does: clients compare it between servers.
func storageVersionHash(k gvk) string {
	sum := sha256.Sum256([]byte(k.Group + "/" + k.Version + "/" + k.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// aggregate returns the document about all resources of the groups.
func aggregate(rows []*api.Resource, groups []string) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
	}
	for _, g := range groups {
		item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g}}
		for _, r := range rows {
			if r.Group != g {
				continue
			}
			i := slices.IndexFunc(item.Versions, func(v apidiscoveryv2.APIVersionDiscovery) bool { return v.Version == r.Version })
			if i < 0 {
				i = len(item.Versions)
				item.Versions = append(item.Versions, apidiscoveryv2.APIVersionDiscovery{Version: r.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent})
			}
			item.Versions[i].Resources = append(item.Versions[i].Resources, resourceDiscovery(r))
		}
		for _, v := range item.Versions {
			slices.SortFunc(v.Resources, func(a, b apidiscoveryv2.APIResourceDiscovery) int { return cmp.Compare(a.Resource, b.Resource) })
		}
		list.Items = append(list.Items, item)
	}
	return list
}

func resourceDiscovery(r *api.Resource) apidiscoveryv2.APIResourceDiscovery {
	e := apidiscoveryv2.APIResourceDiscovery{
		Resource: r.Plural, SingularResource: r.Singular, Scope: apidiscoveryv2.ScopeCluster,
		ResponseKind: kindOf(r.GVK()), Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
	}
	if r.Namespaced {
		e.Scope = apidiscoveryv2.ScopeNamespace
	}
	for _, s := range r.Subresources {
		k := r.GVK()
		if s.Kind != "" {
			k = gvk{Group: s.Group, Version: s.Version, Kind: s.Kind}
		}
		e.Subresources = append(e.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: s.Name, ResponseKind: kindOf(k), Verbs: s.Verbs})
	}
	return e
}

func kindOf(k gvk) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// serve answers for a path without its last slash.
func (d *discovery) serve(w http.ResponseWriter, r *http.Request, path string) {
	if doc := d.aggregated[path]; doc != nil {
		w.Header().Add("Vary", "Accept")
		if wantsAggregated(r) {
			serveAggregated(w, r, doc)
			return
		}
	}
	if obj := d.list(r, path); obj != nil {
		serveList(w, r, obj)
		return
	}
	writeStatus(w, errNotFound)
}

// wantsAggregated reports whether the client likes the document about all
// resources better than a list.
func wantsAggregated(r *http.Request) bool {
	for _, c := range clauses(r.Header["Accept"]) {
		switch {
		case c.params["as"] != "":
			if c.media == mediaJSON && c.params["as"] == "APIGroupDiscoveryList" && c.params["g"] == "apidiscovery.k8s.io" && c.params["v"] == "v2" {
				return true
			}
		case slices.ContainsFunc(listTypes, c.covers):
			return false
		}
	}
	return false
}

func serveAggregated(w http.ResponseWriter, r *http.Request, doc *document) {
	c, err := doc.json()
	if err != nil {
		writeStatus(w, err)
		return
	}
	etag := `"` + strings.ToUpper(c.hash) + `"`
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", "public")
	if matches(r.Header["If-None-Match"], etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", aggregatedType)
	w.Header().Add("Vary", "Accept-Encoding")
	data := c.compressed
	if acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
	} else if data, err = c.plain(); err != nil {
		writeStatus(w, err)
		return
	}
	write(w, r, data)
}

// list returns what is at a path, or nil.
func (d *discovery) list(r *http.Request, path string) runtime.Object {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case path == "/api":
		return &metav1.APIVersions{
			TypeMeta:                   metav1.TypeMeta{Kind: "APIVersions"},
			Versions:                   d.versions[""],
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
		}
	case path == "/apis":
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
		for _, g := range d.groups {
			list.Groups = append(list.Groups, *d.group(g))
		}
		return list
	case parts[0] == "api" && len(parts) == 2:
		return found(d.resources[schema.GroupVersion{Version: parts[1]}])
	case parts[0] == "apis" && len(parts) == 2 && d.versions[parts[1]] != nil && parts[1] != "":
		g := d.group(parts[1])
		g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return g
	case parts[0] == "apis" && len(parts) == 3 && parts[1] != "":
		return found(d.resources[schema.GroupVersion{Group: parts[1], Version: parts[2]}])
	}
	return nil
}

// found keeps a nil list from becoming an object.
func found(l *resources) runtime.Object {
	if l == nil {
		return nil
	}
	return l
}

func (d *discovery) group(name string) *metav1.APIGroup {
	g := &metav1.APIGroup{Name: name}
	for _, v := range d.versions[name] {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

// listTypes are the forms of the lists.
//
//nolint:gochecknoglobals // a constant in all but name
var listTypes = []string{mediaJSON, api.MediaYAML, api.MediaProtobuf}

func serveList(w http.ResponseWriter, r *http.Request, obj runtime.Object) {
	header := r.Header["Accept"]
	media, ok := choose(header, listTypes)
	if !ok {
		writeStatus(w, notAcceptable(listTypes))
		return
	}
	var data []byte
	var err error
	switch media {
	case api.MediaProtobuf:
		data, err = api.EncodeProtobuf(obj)
	default:
		if data, err = json.Marshal(obj); err != nil {
			break
		}
		switch {
		case media == api.MediaYAML:
			data, err = yaml.JSONToYAML(data)
		case wantsPretty(r):
			var b bytes.Buffer
			err = json.Indent(&b, data, "", "  ")
			data = b.Bytes()
		}
	}
	if err != nil {
		writeStatus(w, err)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-cache, private")
	write(w, r, data)
}

// wantsPretty reports whether a human reads the answer.
func wantsPretty(r *http.Request) bool {
	if v, ok := r.URL.Query()["pretty"]; ok {
		return v[0] != "false" && v[0] != "0"
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}
