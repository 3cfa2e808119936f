package authn

import (
	"context"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The life of a token, in seconds.
const (
	minTokenSeconds     = 10 * 60
	defaultTokenSeconds = 60 * 60
	maxTokenSeconds     = 1 << 32
)

// Issue answers a TokenRequest for a service account: the result is the
// request with its status filled in. Errors are *apierrors.StatusError for
// what the client did wrong: NotFound, Invalid, BadRequest, Conflict.
func (s *ServiceAccounts) Issue(ctx context.Context, namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	spec := tr.Spec
	seconds := int64(defaultTokenSeconds)
	if spec.ExpirationSeconds != nil {
		seconds = *spec.ExpirationSeconds
	}
	if err := checkExpiration(name, seconds); err != nil {
		return nil, err
	}
	account, err := s.cfg.Referents.Referent(ctx, "serviceaccounts", namespace, name)
	if err != nil {
		return nil, fmt.Errorf("issue token for service account %s/%s: %w", namespace, name, err)
	}
	if account == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, name)
	}
	if tr.UID != "" && tr.UID != account.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "serviceaccounts"}, name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", tr.UID, account.UID))
	}
	now := s.cfg.Now()
	end := now.Add(time.Duration(seconds) * time.Second)
	claims := &accountClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer:    s.cfg.Issuer,
			Subject:   userName(namespace, name),
			Audience:  spec.Audiences,
			IssuedAt:  jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(end),
			ID:        uuid.NewString(),
		},
		Kubernetes: kubernetesClaims{Namespace: namespace, ServiceAccount: objectClaim{Name: name, UID: account.UID}},
	}
	if len(claims.Audience) == 0 {
		claims.Audience = s.cfg.Audiences
	}
	if spec.BoundObjectRef != nil {
		if err = s.bind(ctx, claims, name, spec.BoundObjectRef); err != nil {
			return nil, err
		}
	}
	token := jwt.NewWithClaims(s.method, claims)
	token.Header["kid"] = s.keyID
	signed, err := token.SignedString(s.cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("sign token for service account %s/%s: %w", namespace, name, err)
	}
	out := tr.DeepCopy()
	out.Namespace, out.Name = namespace, name
	out.Spec.Audiences = claims.Audience
	out.Spec.ExpirationSeconds = &seconds
	out.Status = authenticationv1.TokenRequestStatus{Token: signed, ExpirationTimestamp: metav1.NewTime(end.Truncate(time.Second))}
	return out, nil
}

func checkExpiration(name string, seconds int64) error {
	path := field.NewPath("spec", "expirationSeconds")
	var errs field.ErrorList
	if seconds < minTokenSeconds {
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration less than 10 minutes"))
	}
	if seconds > maxTokenSeconds {
		errs = append(errs, field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: "authentication.k8s.io", Kind: "TokenRequest"}, name, errs)
}

// bind ties the token to the life of an object.
func (s *ServiceAccounts) bind(ctx context.Context, claims *accountClaims, account string, ref *authenticationv1.BoundObjectReference) error {
	kinds := map[string]string{"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
	resource, ok := kinds[ref.Kind]
	if !ok || ref.APIVersion != "v1" {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to object with GVK %q", account,
			schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).String()))
	}
	namespace := claims.Kubernetes.Namespace
	if resource == "nodes" {
		namespace = ""
	}
	found, err := s.cfg.Referents.Referent(ctx, resource, namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("look up %s %q to bind a token to: %w", resource, ref.Name, err)
	}
	gr := schema.GroupResource{Resource: resource}
	if found == nil {
		return apierrors.NewNotFound(gr, ref.Name)
	}
	if ref.UID != "" && ref.UID != found.UID {
		return apierrors.NewConflict(gr, ref.Name, fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	claim := &objectClaim{Name: ref.Name, UID: found.UID}
	switch resource {
	case "pods":
		if found.ServiceAccount != account {
			return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account))
		}
		claims.Kubernetes.Pod = claim
		if found.NodeName != "" {
			claims.Kubernetes.Node = &objectClaim{Name: found.NodeName}
			if node, err := s.cfg.Referents.Referent(ctx, "nodes", "", found.NodeName); err == nil && node != nil {
				claims.Kubernetes.Node.UID = node.UID
			}
		}
	case "secrets":
		claims.Kubernetes.Secret = claim
	case "nodes":
		claims.Kubernetes.Node = claim
	}
	return nil
}
