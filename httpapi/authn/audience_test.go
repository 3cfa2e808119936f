package authn_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/proa-project/proa/httpapi/authn"
	"github.com/proa-project/proa/httpapi/request"
)

// TestVerifyTokenFor asks for whom tokens are, through the chain that a server
// has.
func TestVerifyTokenFor(t *testing.T) {
	refs, now := cluster(), time.Now()
	s := accounts(t, refs, &now, ecKey(t))
	chain := authn.Chain{&authn.ClientCerts{}, authn.Bearer{authn.NewStatic(map[string]*request.User{"secret": {Name: "ann"}}), s}}
	own := []string{authn.DefaultIssuer}
	ours, vault := issue(t, s, authenticationv1.TokenRequestSpec{}), issue(t, s, authenticationv1.TokenRequestSpec{Audiences: []string{"vault", authn.DefaultIssuer}})
	other := issue(t, s, authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})
	for _, tt := range []struct {
		name, token string
		wanted      []string
		user        string
		audiences   []string
		bad         bool
	}{
		{"account", ours, own, "system:serviceaccount:shop:web", own, false},
		{"account of two", vault, []string{"vault", "x"}, "system:serviceaccount:shop:web", []string{"vault"}, false},
		{"account of another", other, []string{"vault"}, "system:serviceaccount:shop:web", []string{"vault"}, false},
		{"account of another for us", other, own, "", nil, true},
		{"account for another", ours, []string{"vault"}, "", nil, true},
		{"static", "secret", []string{"x", authn.DefaultIssuer}, "ann", own, false},
		{"static for another", "secret", []string{"x"}, "", nil, true},
		{"nobody's", "nonsense", own, "", nil, true},
	} {
		u, audiences, err := chain.VerifyTokenFor(context.Background(), tt.token, tt.wanted, own)
		if errors.Is(err, authn.ErrUnauthenticated) != tt.bad || !tt.bad && (err != nil || u.Name != tt.user || !slices.Equal(audiences, tt.audiences)) || tt.bad && u != nil {
			t.Errorf("%s: %+v %v %v", tt.name, u, audiences, err)
		}
	}
	if u, _, err := (authn.Chain{&authn.ClientCerts{}}).VerifyTokenFor(context.Background(), "x", own, own); u != nil || err != nil {
		t.Errorf("nobody who looks at tokens: %v %v", u, err)
	}
}
