package authz

import (
	"context"
	"slices"
	"strings"

	"github.com/proa-project/proa/httpapi/request"
)

// Masters allows members of request.Masters everything.
type Masters struct{}

// Authorize allows or has no opinion.
func (Masters) Authorize(_ context.Context, u *request.User, _ *request.Info) (Decision, string, error) {
	if u.InGroup(request.Masters) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// Health allows everybody, anonymous included, to read whether the server is
// well, its version and its root certificate; everybody with a good credential
// to read discovery and OpenAPI documents; and service accounts to read how
// their tokens are verified.
type Health struct{}

//nolint:gochecknoglobals // constants in all but name
var (
	publicPaths    = []string{"/livez", "/readyz", "/healthz", "/version", "/version/", "/cacerts"}
	publicTrees    = []string{"/livez/", "/readyz/", "/healthz/"}
	discoveryPaths = []string{"/api", "/apis", "/openapi"}
	discoveryTrees = []string{"/api/", "/apis/", "/openapi/"}
	issuerPaths    = []string{"/.well-known/openid-configuration", "/openid/v1/jwks"}
)

// Authorize allows or has no opinion.
func (Health) Authorize(_ context.Context, u *request.User, i *request.Info) (Decision, string, error) {
	if i.Resource != nil || i.Verb != "get" && i.Verb != "head" {
		return NoOpinion, "", nil
	}
	if matches(i.Path, publicPaths, publicTrees) {
		return Allow, "", nil
	}
	if u.InGroup(request.Authenticated) && matches(i.Path, discoveryPaths, discoveryTrees) {
		return Allow, "", nil
	}
	if u.InGroup(request.ServiceAccounts) && slices.Contains(issuerPaths, i.Path) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

func matches(path string, paths, trees []string) bool {
	return slices.Contains(paths, path) || slices.ContainsFunc(trees, func(t string) bool { return strings.HasPrefix(path, t) })
}

// Join allows holders of join tokens to exchange them for a node's
// certificates, and nodes to renew theirs.
type Join struct{}

const joinPath = "/proa/v1/join"

// Authorize allows or has no opinion.
func (Join) Authorize(_ context.Context, u *request.User, i *request.Info) (Decision, string, error) {
	if i.Resource != nil || i.Verb != "post" || i.Path != joinPath {
		return NoOpinion, "", nil
	}
	if u.InGroup(request.Bootstrappers) || u.InGroup(request.Nodes) {
		return Allow, "", nil
	}
	return NoOpinion, "only holders of a join token and nodes may join", nil
}
