package httpapi

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/admission"
	"github.com/proa-project/proa/httpapi/registry"
)

// writeObject answers with an object that is not of the endpoint's kind.
func writeObject(w http.ResponseWriter, r *http.Request, out *output, code int, obj runtime.Object) error {
	var body []byte
	var err error
	if out.format == formatProtobuf {
		body, err = api.EncodeProtobuf(obj)
	} else if body, err = api.Encode(obj); err == nil {
		body, err = finish(out, body)
	}
	if err != nil {
		return err
	}
	writeBody(w, r, out, code, body)
	return nil
}

// getScale answers GET on scale.
func (s *Server) getScale(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: true})
	if err != nil {
		return err
	}
	old, err := c.Load(r.Context(), c.registryCall(), true)
	if err != nil {
		return err
	}
	scale, err := c.Scale(old.Object)
	if err != nil {
		return err
	}
	return writeObject(w, r, &out, http.StatusOK, scale)
}

// updateScale answers PUT on scale.
func (s *Server) updateScale(w http.ResponseWriter, r *http.Request, c *call) error {
	opts, err := c.parseWriteOptions("UpdateOptions")
	if err != nil {
		return err
	}
	want := &autoscalingv1.Scale{}
	warnings, err := s.decode(w, r, want, opts.strictness)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.Warnings, rc.DryRun, rc.Options = warnings, len(opts.dryRun) > 0, opts.update()
	return s.changeScale(w, r, c, rc, func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return want, nil })
}

// patchScale answers PATCH on scale.
func (s *Server) patchScale(w http.ResponseWriter, r *http.Request, c *call) error {
	opts, err := c.parseWriteOptions("PatchOptions")
	if err != nil {
		return err
	}
	p, err := s.readPatch(w, r, c, opts.strictness)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.DryRun, rc.Options = len(opts.dryRun) > 0, opts.patch()
	return s.changeScale(w, r, c, rc, func(have *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		want, warnings, err := p.applyScale(have)
		rc.Warnings = append(rc.Warnings, warnings...)
		return want, err
	})
}

func (s *Server) changeScale(w http.ResponseWriter, r *http.Request, c *call, rc *registry.Call, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error)) error {
	out, err := negotiate(r, c, offers{protobuf: true})
	if err != nil {
		return err
	}
	res, err := c.UpdateScale(r.Context(), rc, change)
	writeWarnings(w, rc.Warnings)
	if err != nil {
		return err
	}
	scale, err := c.Scale(res.Object)
	if err != nil {
		return err
	}
	return writeObject(w, r, &out, http.StatusOK, scale)
}

// bind answers POST on a pod's binding, and on the bindings of a namespace,
// which name the pod in the body.
func (s *Server) bind(w http.ResponseWriter, r *http.Request, c *call) error {
	b := &corev1.Binding{}
	opts, err := c.parseWriteOptions("CreateOptions")
	if err != nil {
		return err
	}
	warnings, err := s.decode(w, r, b, opts.strictness)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.Warnings, rc.DryRun, rc.Options = warnings, len(opts.dryRun) > 0, opts.create()
	if rc.Name == "" {
		rc.Name = b.Name
	}
	if rc.Name == "" {
		return badRequest("the name of the object was undeterminable: name must be provided")
	}
	_, err = c.Bind(r.Context(), rc, b)
	writeWarnings(w, rc.Warnings)
	if err != nil {
		return err
	}
	writeStatus(w, http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	return nil
}

// evict answers POST on a pod's eviction.
func (s *Server) evict(w http.ResponseWriter, r *http.Request, c *call) error {
	e := &policyv1.Eviction{}
	opts, err := c.parseWriteOptions("CreateOptions")
	if err != nil {
		return err
	}
	warnings, err := s.decode(w, r, e, opts.strictness)
	if err != nil {
		return err
	}
	if e.DeleteOptions != nil {
		if err = checkDeleteOptions(e.DeleteOptions); err != nil {
			return err
		}
	}
	rc := c.registryCall()
	rc.Warnings, rc.DryRun = warnings, len(opts.dryRun) > 0
	_, err = c.Evict(r.Context(), rc, e)
	writeWarnings(w, rc.Warnings)
	if err != nil {
		return err
	}
	writeStatus(w, http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	return nil
}

// token answers POST on a service account's token.
func (s *Server) token(w http.ResponseWriter, r *http.Request, c *call) error {
	if s.cfg.Tokens == nil {
		return apierrors.NewMethodNotSupported(c.GR(), "create")
	}
	out, err := negotiate(r, c, offers{protobuf: true})
	if err != nil {
		return err
	}
	opts, err := c.parseWriteOptions("CreateOptions")
	if err != nil {
		return err
	}
	tr := &authenticationv1.TokenRequest{}
	warnings, err := s.decode(w, r, tr, opts.strictness)
	if err != nil {
		return err
	}
	if tr.Name != "" && tr.Name != c.info.Name {
		return badRequest("the name of the object (%s) does not match the name on the URL (%s)", tr.Name, c.info.Name)
	}
	rc := c.registryCall()
	rc.Warnings, rc.DryRun, rc.Options = warnings, len(opts.dryRun) > 0, opts.create()
	if _, err = c.Load(r.Context(), rc, true); err != nil {
		return err
	}
	err = c.Admit(r.Context(), rc, admission.Create, tr)
	writeWarnings(w, rc.Warnings)
	if err != nil {
		return err
	}
	issued, err := s.cfg.Tokens.Issue(r.Context(), c.info.Namespace, c.info.Name, tr)
	if err != nil {
		return err
	}
	return writeObject(w, r, &out, http.StatusCreated, issued)
}
