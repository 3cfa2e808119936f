package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/admission/celpolicy"
)

// reviewVersion returns the first version of AdmissionReview in the list that
// the server speaks. Both have the same members.
func reviewVersion(list []string) (string, error) {
	for _, v := range list {
		if v == "v1" || v == "v1beta1" {
			return v, nil
		}
	}
	return "", errors.New("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

const reviewKind = "AdmissionReview"

// encodeReview returns the body of a call.
func encodeReview(version string, uid types.UID, r *admission.Request, row *api.Resource, s shown) ([]byte, error) {
	kind, requestKind := celpolicy.Kind(r, row), celpolicy.Kind(r, r.Resource)
	requestResource := metav1.GroupVersionResource(r.Resource.GVR())
	dryRun := r.DryRun
	request := &admissionv1.AdmissionRequest{
		UID: uid, Kind: kind, Resource: metav1.GroupVersionResource(row.GVR()), SubResource: r.Subresource,
		RequestKind: &requestKind, RequestResource: &requestResource, RequestSubResource: r.Subresource,
		Name: r.Name, Namespace: celpolicy.NamespaceOf(r), Operation: admissionv1.Operation(r.Operation), UserInfo: user(r),
		Object: runtime.RawExtension{Raw: s.object}, OldObject: runtime.RawExtension{Raw: s.oldObject}, DryRun: &dryRun,
	}
	var err error
	if request.Options.Raw, err = options(r.Options); err != nil {
		return nil, err
	}
	return json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.GroupName + "/" + version, Kind: reviewKind}, Request: request,
	})
}

func user(r *admission.Request) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{}
	if u := r.User; u != nil {
		info.Username, info.UID, info.Groups = u.Name, u.UID, slices.Clone(u.Groups)
		if len(u.Extra) > 0 {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		for k, v := range u.Extra {
			info.Extra[k] = v
		}
	}
	return info
}

// options returns the options of a write with their kind.
func options(obj runtime.Object) ([]byte, error) {
	if obj == nil {
		return nil, nil
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	if _, ok := members["kind"]; !ok {
		members["kind"], members["apiVersion"] = json.RawMessage(`"`+kindName(obj)+`"`), json.RawMessage(`"meta.k8s.io/v1"`)
	}
	return json.Marshal(members)
}

// replyReview is an AdmissionReview of both versions, as far as it is a reply.
type replyReview struct {
	metav1.TypeMeta `json:",inline"`

	Response *response `json:"response"`
}

// response is an AdmissionResponse whose patch type may be anything.
type response struct {
	UID              types.UID         `json:"uid"`
	Allowed          bool              `json:"allowed"`
	Result           *metav1.Status    `json:"status"`
	Patch            []byte            `json:"patch"`
	PatchType        *string           `json:"patchType"`
	AuditAnnotations map[string]string `json:"auditAnnotations"`
	Warnings         []string          `json:"warnings"`
}

// A reply is what a webhook has answered, checked.
type reply struct {
	Allowed          bool
	Result           *metav1.Status
	Patch            []byte
	PatchType        string
	AuditAnnotations map[string]string
	Warnings         []string
}

// decodeReply reads the body of an answer and checks that it is one to the
// review with the version and uid.
func decodeReply(body []byte, version string, uid types.UID, mutates bool) (*reply, error) {
	var review replyReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, fmt.Errorf("failed to call webhook: couldn't get version/kind; json parse error: %w", err)
	}
	out, err := check(&review, version, uid, mutates)
	if err != nil {
		return nil, fmt.Errorf("received invalid webhook response: %w", err)
	}
	return out, nil
}

func check(review *replyReview, version string, uid types.UID, mutates bool) (*reply, error) {
	r := review.Response
	if r == nil {
		return nil, errors.New("webhook response was absent")
	}
	out := &reply{r.Allowed, r.Result, r.Patch, "", r.AuditAnnotations, r.Warnings}
	if r.PatchType != nil {
		out.PatchType = *r.PatchType
	}
	if version == "v1beta1" {
		if out.PatchType = ""; mutates && len(r.Patch) > 0 {
			out.PatchType = string(admissionv1.PatchTypeJSONPatch)
		}
		if !mutates {
			out.Patch = nil
		}
		return out, nil
	}
	if r.UID != uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	}
	if want, got := admissionv1.SchemeGroupVersion.WithKind(reviewKind), review.GroupVersionKind(); got != want {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
	}
	switch {
	case !mutates && len(r.Patch) > 0:
		return nil, errors.New("validating webhook may not return response.patch")
	case !mutates && r.PatchType != nil:
		return nil, errors.New("validating webhook may not return response.patchType")
	case len(r.Patch) > 0 && r.PatchType == nil:
		return nil, errors.New("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return nil, errors.New("webhook returned response.patchType but not response.patch")
	case r.PatchType != nil && *r.PatchType == "":
		return nil, fmt.Errorf("webhook returned invalid response.patchType of %q", *r.PatchType)
	}
	return out, nil
}
