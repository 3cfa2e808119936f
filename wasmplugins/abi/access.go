package abi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// The exports of authorization and authentication.
const (
	ExportAuthorize    = "proa_authorize"
	ExportAuthenticate = "proa_authenticate"
)

// The decisions of proa_authorize.
const (
	DecisionAllow     = "Allow"
	DecisionDeny      = "Deny"
	DecisionNoOpinion = "NoOpinion"
)

// AuthorizeInput returns the input of proa_authorize.
func AuthorizeInput(spec *authorizationv1.SubjectAccessReviewSpec) ([]byte, error) {
	return json.Marshal(struct {
		APIVersion string                                   `json:"apiVersion"`
		Spec       *authorizationv1.SubjectAccessReviewSpec `json:"spec"`
	}{Native, spec})
}

// ParseAuthorizeReply decodes the reply of proa_authorize. An empty one is no
// opinion.
func ParseAuthorizeReply(b []byte) (decision, reason string, err error) {
	var r struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
	}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &r); err != nil {
			return "", "", fmt.Errorf("the reply is no JSON of a decision: %w", err)
		}
	}
	switch r.Decision {
	case "":
		r.Decision = DecisionNoOpinion
	case DecisionAllow, DecisionDeny, DecisionNoOpinion:
	default:
		return "", "", fmt.Errorf("the decision is %q; it can be %s, %s and %s", r.Decision, DecisionAllow, DecisionDeny, DecisionNoOpinion)
	}
	return r.Decision, r.Reason, nil
}

// AuthenticateInput returns the input of proa_authenticate.
func AuthenticateInput(token string, audiences []string) ([]byte, error) {
	return json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Token      string   `json:"token"`
		Audiences  []string `json:"audiences,omitempty"`
	}{Native, token, audiences})
}

// reserved begins the names of users and groups that are the system's.
const reserved = "system:"

// ParseAuthenticateReply decodes the reply of proa_authenticate: the user, or
// nil if the guest does not know the token. A name that is the system's is an
// error.
func ParseAuthenticateReply(b []byte) (*authenticationv1.UserInfo, error) {
	var r struct {
		Authenticated bool                      `json:"authenticated"`
		User          authenticationv1.UserInfo `json:"user"`
		Error         string                    `json:"error"`
	}
	if len(b) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("the reply is no JSON of a token review: %w", err)
	}
	if !r.Authenticated {
		return nil, nil
	}
	if r.User.Username == "" {
		return nil, errors.New("the user has no name")
	}
	for _, name := range append([]string{r.User.Username}, r.User.Groups...) {
		if strings.HasPrefix(name, reserved) {
			return nil, fmt.Errorf("the name %q begins with %q, which plugins may not give", name, reserved)
		}
	}
	return &r.User, nil
}
