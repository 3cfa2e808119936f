package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/httpapi/registry"
)

// maxPatchOperations bounds a JSON patch.
const maxPatchOperations = 10000

// patch answers PATCH on an object or on its status.
func (s *Server) patch(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true})
	if err != nil {
		return err
	}
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
	var warnings []string
	res, err := c.Update(r.Context(), rc, func(old registry.Stored) (api.Object, error) {
		if old.Object == nil {
			return nil, apierrors.NewNotFound(c.GR(), c.info.Name)
		}
		obj := c.New()
		if warnings, err = p.apply(old.Value, obj); err != nil {
			return nil, err
		}
		more, perr := c.prune(obj, p.strictness)
		warnings = append(warnings, more...)
		return obj, p.refused(perr)
	})
	rc.Warnings = append(warnings, rc.Warnings...)
	if err != nil {
		writeWarnings(w, rc.Warnings)
		return err
	}
	return writeResult(w, r, c, rc, &out, http.StatusOK, res)
}

// A patch is a change as a client describes it.
type patch struct {
	kind       types.PatchType
	data       []byte // as sent; JSON
	operations jsonpatch.Patch
	strictness api.Strictness
}

// readPatch reads the body of a PATCH.
func (s *Server) readPatch(w http.ResponseWriter, r *http.Request, c *call, strictness api.Strictness) (*patch, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		media = r.Header.Get("Content-Type")
	}
	p := &patch{kind: types.PatchType(media), strictness: strictness}
	accepted := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if c.protobuf { // the kinds of Kubernetes know how lists merge
		accepted = append(accepted, string(types.StrategicMergePatchType))
	}
	if !slices.Contains(accepted, media) {
		return nil, generic(http.StatusUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types include: "+strings.Join(accepted, ", "))
	}
	if p.data, err = s.readBody(w, r); err != nil {
		return nil, err
	}
	if p.kind == types.JSONPatchType {
		return p, p.readOperations()
	}
	var object map[string]any
	if err := json.Unmarshal(p.data, &object); err != nil {
		if data, yerr := yaml.YAMLToJSON(p.data); yerr == nil && json.Unmarshal(data, &object) == nil {
			p.data = data
			return p, nil
		}
		return nil, badRequest("error decoding patch: %v", err)
	}
	return p, nil
}

// readOperations reads a JSON patch.
func (p *patch) readOperations() error {
	var err error
	if p.operations, err = jsonpatch.DecodePatch(p.data); err != nil {
		return badRequest("error decoding patch: %v", err)
	}
	if n := len(p.operations); n > maxPatchOperations {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, n))
	}
	return nil
}

// apply applies the patch to an object's JSON and decodes the result.
func (p *patch) apply(value []byte, into runtime.Object) (warnings []string, err error) {
	var patched []byte
	switch p.kind {
	case types.JSONPatchType:
		patched, err = p.operations.Apply(value)
		if err != nil {
			return nil, unprocessable("%v", err)
		}
	case types.MergePatchType:
		patched, err = jsonpatch.MergePatch(value, p.data)
		if err != nil {
			return nil, badRequest("%v", err)
		}
	default:
		patched, err = strategicpatch.StrategicMergePatch(value, p.data, into)
		switch {
		case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
			errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
			errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
			return nil, badRequest("%v", err)
		case err != nil:
			return nil, unprocessable("%v", err)
		}
	}
	warnings, err = api.Decode(patched, api.MediaJSON, into, p.strictness)
	return warnings, p.refused(err)
}

// refused returns the answer for a patch whose result cannot be decoded.
func (p *patch) refused(err error) error {
	if decode := (*api.DecodeError)(nil); errors.As(err, &decode) {
		return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(p.data), decode.Err.Error()),
		})
	}
	return err
}

// applyScale applies the patch to a scale.
func (p *patch) applyScale(have *autoscalingv1.Scale) (*autoscalingv1.Scale, []string, error) {
	value, err := api.Encode(have)
	if err != nil {
		return nil, nil, err
	}
	want := &autoscalingv1.Scale{}
	warnings, err := p.apply(value, want)
	return want, warnings, err
}
