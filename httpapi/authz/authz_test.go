package authz_test

import (
	"context"
	"errors"
	"testing"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/authz"
	"github.com/proa-project/proa/httpapi/request"
)

// graph is a cluster in which node n1 runs pod shop/web, which uses one each
// of a Secret, a ConfigMap and a ServiceAccount.
type graph struct{ err error }

func (g graph) NodeOfPod(_ context.Context, namespace, pod string) (string, error) {
	return map[string]string{"shop/web": "n1", "shop/db": "n2", "shop/pending": ""}[namespace+"/"+pod], g.err
}

func (g graph) NodeUses(_ context.Context, node, resource, namespace, name string) (bool, error) {
	return map[string]bool{"n1/secrets/shop/key": true, "n1/configmaps/shop/conf": true, "n1/serviceaccounts/shop/web": true}[node+"/"+resource+"/"+namespace+"/"+name], g.err
}

var (
	admin     = &request.User{Name: "admin", Groups: []string{"system:masters", "system:authenticated"}}
	n1        = &request.User{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}
	fakeNode  = &request.User{Name: "system:node:n1", Groups: []string{"system:authenticated"}}
	noNode    = &request.User{Name: "system:node:", Groups: []string{"system:nodes", "system:authenticated"}}
	joiner    = &request.User{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", "system:authenticated"}}
	account   = &request.User{Name: "system:serviceaccount:shop:web", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}}
	anonymous = request.Anonymous
)

func all(g graph) authz.Chain {
	return authz.Chain{authz.Masters{}, authz.Health{}, authz.Join{}, &authz.Nodes{Graph: g}}
}

func path(verb, path string) request.Info { return request.Info{Verb: verb, Path: path} }

// on is a request for a resource: "pods", "pods/status", "leases" and so on.
func on(verb, group, plural, sub, namespace, name, fieldSelector string) request.Info {
	r := api.ByGVR(group, "v1", plural)
	if r == nil {
		r = &api.Resource{Group: group, Version: "v1", Plural: plural}
	}
	return request.Info{Verb: verb, Resource: r, Subresource: sub, Namespace: namespace, Name: name, FieldSelector: fieldSelector}
}

func TestAuthorize(t *testing.T) {
	const co = "coordination.k8s.io"
	for _, tt := range []struct {
		name    string
		user    *request.User
		info    request.Info
		allowed bool
	}{
		{"masters may all", admin, on("deletecollection", "", "secrets", "", "kube-system", "", ""), true},
		{"masters may all paths", admin, path("delete", "/anything"), true},

		{"anonymous health", anonymous, path("get", "/livez"), true},
		{"anonymous health of one", anonymous, path("get", "/readyz/etcd"), true},
		{"anonymous version", anonymous, path("get", "/version"), true},
		{"anonymous root certificate", anonymous, path("get", "/cacerts"), true},
		{"anonymous HEAD", anonymous, path("head", "/healthz"), true},
		{"anonymous POST to health", anonymous, path("post", "/livez"), false},
		{"anonymous look-alike", anonymous, path("get", "/livezzz"), false},
		{"anonymous discovery", anonymous, path("get", "/apis"), false},
		{"anonymous metrics", anonymous, path("get", "/metrics"), false},
		{"anonymous join", anonymous, path("post", "/proa/v1/join"), false},
		{"anonymous pods", anonymous, on("list", "", "pods", "", "shop", "", ""), false},

		{"account discovery", account, path("get", "/api/v1"), true},
		{"account OpenAPI", account, path("get", "/openapi/v3/api/v1"), true},
		{"account issuer", account, path("get", "/openid/v1/jwks"), true},
		{"anonymous issuer", anonymous, path("get", "/.well-known/openid-configuration"), false},
		{"account metrics", account, path("get", "/metrics"), false},
		{"account own namespace", account, on("get", "", "pods", "", "shop", "web", ""), false},
		{"account join", account, path("post", "/proa/v1/join"), false},

		{"joiner joins", joiner, path("post", "/proa/v1/join"), true},
		{"joiner reads join", joiner, path("get", "/proa/v1/join"), false},
		{"joiner beside join", joiner, path("post", "/proa/v1/join/x"), false},
		{"joiner nodes", joiner, on("create", "", "nodes", "", "", "", ""), false},
		{"joiner secrets", joiner, on("list", "", "secrets", "", "kube-system", "", ""), false},
		{"node renews", n1, path("post", "/proa/v1/join"), true},

		{"node reads itself", n1, on("get", "", "nodes", "", "", "n1", ""), true},
		{"node watches nodes", n1, on("watch", "", "nodes", "", "", "", ""), true},
		{"node creates itself", n1, on("create", "", "nodes", "", "", "", ""), true},
		{"node patches itself", n1, on("patch", "", "nodes", "", "", "n1", ""), true},
		{"node updates its status", n1, on("update", "", "nodes", "status", "", "n1", ""), true},
		{"node updates another", n1, on("update", "", "nodes", "", "", "n2", ""), false},
		{"node patches another's status", n1, on("patch", "", "nodes", "status", "", "n2", ""), false},
		{"node deletes itself", n1, on("delete", "", "nodes", "", "", "n1", ""), false},
		{"node deletes nodes", n1, on("deletecollection", "", "nodes", "", "", "", ""), false},

		{"node makes its lease", n1, on("create", co, "leases", "", "kube-node-lease", "", ""), true},
		{"node renews its lease", n1, on("update", co, "leases", "", "kube-node-lease", "n1", ""), true},
		{"node another's lease", n1, on("update", co, "leases", "", "kube-node-lease", "n2", ""), false},
		{"node leader's lease", n1, on("update", co, "leases", "", "kube-system", "n1", ""), false},
		{"node lists leases", n1, on("list", co, "leases", "", "kube-node-lease", "", ""), false},

		{"node lists its pods", n1, on("list", "", "pods", "", "", "", "spec.nodeName=n1"), true},
		{"node watches its pods", n1, on("watch", "", "pods", "", "shop", "", "status.phase!=Failed,spec.nodeName=n1"), true},
		{"node lists all pods", n1, on("list", "", "pods", "", "", "", ""), false},
		{"node lists others' pods", n1, on("list", "", "pods", "", "", "", "spec.nodeName=n2"), false},
		{"node lists all but", n1, on("list", "", "pods", "", "", "", "spec.nodeName!=n1"), false},
		{"node reads its pod", n1, on("get", "", "pods", "", "shop", "web", ""), true},
		{"node deletes its pod", n1, on("delete", "", "pods", "", "shop", "web", ""), true},
		{"node status of its pod", n1, on("update", "", "pods", "status", "shop", "web", ""), true},
		{"node reads another's pod", n1, on("get", "", "pods", "", "shop", "db", ""), false},
		{"node status of another's pod", n1, on("patch", "", "pods", "status", "shop", "db", ""), false},
		{"node deletes an unbound pod", n1, on("delete", "", "pods", "", "shop", "pending", ""), false},
		{"node deletes no pod", n1, on("delete", "", "pods", "", "shop", "gone", ""), false},
		{"node changes its pod", n1, on("update", "", "pods", "", "shop", "web", ""), false},
		{"node creates pods", n1, on("create", "", "pods", "", "shop", "", ""), false},
		{"node binds pods", n1, on("create", "", "pods", "binding", "shop", "pending", ""), false},
		{"node deletes all its pods", n1, on("deletecollection", "", "pods", "", "shop", "", "spec.nodeName=n1"), false},
		{"node execs", n1, on("create", "", "pods", "exec", "shop", "web", ""), false},

		{"node reads a used Secret", n1, on("get", "", "secrets", "", "shop", "key", ""), true},
		{"node watches a used Secret", n1, on("watch", "", "secrets", "", "shop", "", "metadata.name=key"), true},
		{"node reads a used ConfigMap", n1, on("get", "", "configmaps", "", "shop", "conf", ""), true},
		{"node reads another Secret", n1, on("get", "", "secrets", "", "shop", "other", ""), false},
		{"node lists Secrets", n1, on("list", "", "secrets", "", "shop", "", ""), false},
		{"node lists Secrets everywhere", n1, on("list", "", "secrets", "", "", "", "metadata.name=key"), false},
		{"node changes a used Secret", n1, on("update", "", "secrets", "", "shop", "key", ""), false},
		{"node token of a used account", n1, on("create", "", "serviceaccounts", "token", "shop", "web", ""), true},
		{"node token of another account", n1, on("create", "", "serviceaccounts", "token", "shop", "admin", ""), false},
		{"node reads an account", n1, on("get", "", "serviceaccounts", "", "shop", "web", ""), false},

		{"node creates events", n1, on("create", "", "events", "", "shop", "", ""), true},
		{"node creates new events", n1, on("create", "events.k8s.io", "events", "", "shop", "", ""), true},
		{"node patches events", n1, on("patch", "", "events", "", "shop", "e", ""), true},
		{"node lists events", n1, on("list", "", "events", "", "shop", "", ""), false},
		{"node reads services", n1, on("watch", "", "services", "", "", "", ""), true},
		{"node changes services", n1, on("update", "", "services", "", "shop", "s", ""), false},
		{"node modules", n1, on("get", "plugins.proa.io", "wasmmodules", "", "", "m", ""), false},
		{"node Deployments", n1, on("list", "apps", "deployments", "", "shop", "", ""), false},
		{"name of a node without the group", fakeNode, on("get", "", "nodes", "", "", "n1", ""), false},
		{"group of nodes without a name", noNode, on("get", "", "nodes", "", "", "", ""), false},
	} {
		d, reason, err := all(graph{}).Authorize(context.Background(), tt.user, &tt.info)
		if err != nil || (d == authz.Allow) != tt.allowed || d == authz.Deny {
			t.Errorf("%s: decision %d, reason %q, error %v", tt.name, d, reason, err)
		}
	}
}

func TestNodes_reasons(t *testing.T) {
	i := on("get", "", "secrets", "", "shop", "other", "")
	if _, reason, _ := all(graph{}).Authorize(context.Background(), n1, &i); reason != "no relationship found between node 'n1' and this object" {
		t.Errorf("reason is %q", reason)
	}
}

func TestNodes_lookupFails(t *testing.T) {
	down := errors.New("cache is down")
	for _, i := range []request.Info{on("get", "", "pods", "", "shop", "web", ""), on("get", "", "secrets", "", "shop", "key", "")} {
		if d, _, err := all(graph{err: down}).Authorize(context.Background(), n1, &i); d != authz.NoOpinion || !errors.Is(err, down) {
			t.Errorf("%s: decision %d, error %v", i.Resource.Plural, d, err)
		}
	}
}

func BenchmarkNodes(b *testing.B) {
	i := on("update", "", "pods", "status", "shop", "web", "")
	chain := all(graph{})
	b.ReportAllocs()
	for b.Loop() {
		if d, _, _ := chain.Authorize(context.Background(), n1, &i); d != authz.Allow {
			b.Fatal("denied")
		}
	}
}
