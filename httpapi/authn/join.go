package authn

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/httpapi/pki"
	"github.com/proa-project/proa/httpapi/request"
)

// JoinPath is where node agents exchange a join token for certificates.
const JoinPath = "/proa/v1/join"

// CACertsPath is where anybody reads the cluster's root, to check it against
// a hash that came another way.
const CACertsPath = "/cacerts"

// maxJoinBody is the limit of a join request in bytes: two signing requests.
const maxJoinBody = 64 << 10

// A JoinRequest is the body of POST JoinPath.
type JoinRequest struct {
	// NodeName is the name of the node that joins.
	NodeName string `json:"nodeName"`
	// CSR and ServingCSR are PEM certificate signing requests for the node's
	// client certificate and for the one that it serves with.
	CSR        string `json:"csr"`
	ServingCSR string `json:"servingCSR"`
}

// A JoinResponse is the answer, PEM throughout.
type JoinResponse struct {
	// Certificate identifies the node to the API server.
	Certificate string `json:"certificate"`
	// ServingCertificate is what the node agent serves with.
	ServingCertificate string `json:"servingCertificate"`
	// CA is the cluster's root: of the API server, and of the clients that
	// the node agent lets in.
	CA string `json:"ca"`
}

// JoinHandler serves POST JoinPath. A bootstrapper may join under any name; a
// node may renew its own certificates the same way. It needs the request's
// state, and that only bootstrappers, nodes and masters get here is for the
// authorizers.
func JoinHandler(a *pki.Authority) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := join(a, w, r)
		if err != nil {
			writeStatus(w, err)
			return
		}
		body, err := json.Marshal(resp)
		if err != nil {
			writeStatus(w, apierrors.NewInternalError(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(body) //nolint:errcheck // the client is gone
	})
}

func join(a *pki.Authority, w http.ResponseWriter, r *http.Request) (*JoinResponse, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
	}
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if mt, _, err := mime.ParseMediaType(ct); err != nil || mt != "application/json" {
			return nil, statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
				"the body of the request was in an unknown format - accepted media types include: application/json")
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJoinBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, apierrors.NewRequestEntityTooLargeError("limit is 65536")
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("read the body of the request: " + err.Error())
	}
	var req JoinRequest
	if err = json.Unmarshal(body, &req); err != nil {
		return nil, apierrors.NewBadRequest("the body of the request is not a join request: " + err.Error())
	}
	if err = mayJoin(request.Of(r), req.NodeName); err != nil {
		return nil, err
	}
	client, err := a.SignNodeClient([]byte(req.CSR), req.NodeName)
	if err != nil {
		return nil, joinError("csr", err)
	}
	serving, err := a.SignNodeServing([]byte(req.ServingCSR), req.NodeName)
	if err != nil {
		return nil, joinError("servingCSR", err)
	}
	return &JoinResponse{Certificate: string(client), ServingCertificate: string(serving), CA: string(a.PEM())}, nil
}

// mayJoin refuses a node that asks for another one's certificates.
func mayJoin(s *request.State, nodeName string) error {
	if s == nil || s.User == nil {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	if s.User.InGroup(request.Nodes) && s.User.Name != request.NodeUserPrefix+nodeName {
		return statusError(http.StatusForbidden, metav1.StatusReasonForbidden,
			"forbidden: a node can renew its own certificates only")
	}
	return nil
}

func joinError(field string, err error) error {
	if errors.Is(err, pki.ErrBadRequest) {
		return apierrors.NewBadRequest(field + ": " + err.Error())
	}
	return apierrors.NewInternalError(err)
}

func statusError(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// writeStatus answers with the Status of an error.
func writeStatus(w http.ResponseWriter, err error) {
	var se *apierrors.StatusError
	if !errors.As(err, &se) {
		se = apierrors.NewInternalError(err)
	}
	s := se.ErrStatus
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(s.Code))
	json.NewEncoder(w).Encode(s) //nolint:errcheck // the client is gone
}

// CACertsHandler serves GET CACertsPath: the cluster's root as PEM.
func CACertsHandler(a *pki.Authority) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeStatus(w, statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource"))
			return
		}
		w.Header().Set("Content-Type", "application/x-pem-file")
		w.Write(a.PEM()) //nolint:errcheck // the client is gone
	})
}
