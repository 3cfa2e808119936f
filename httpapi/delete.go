package httpapi

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
)

// delete answers DELETE on an object.
func (s *Server) delete(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true})
	if err != nil {
		return err
	}
	opts, err := s.deleteOptions(w, r, c)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.DryRun, rc.Options = len(opts.DryRun) > 0, opts
	res, err := c.Delete(r.Context(), rc, opts)
	if err != nil {
		writeWarnings(w, rc.Warnings)
		return err
	}
	if res.Deleted && !c.ReturnsDeleted() {
		writeWarnings(w, rc.Warnings)
		writeStatus(w, http.StatusOK, deletedStatus(c, res.Object))
		return nil
	}
	code := http.StatusOK
	if o := opts.OrphanDependents; !res.Deleted && o != nil && !*o { //nolint:staticcheck // old clients send it
		code = http.StatusAccepted
	}
	return writeResult(w, r, c, rc, &out, code, res)
}

// deletedStatus is the answer when an object is gone.
func deletedStatus(c *call, obj api.Object) *metav1.Status {
	return &metav1.Status{
		Status:  metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: obj.GetName(), Group: c.Group, Kind: c.Plural, UID: obj.GetUID()},
	}
}

// deleteOptions reads the options of a delete from the body or, if there is
// none, from the query.
func (s *Server) deleteOptions(w http.ResponseWriter, r *http.Request, c *call) (*metav1.DeleteOptions, error) {
	body, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	opts, err := c.parseDeleteOptions()
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		opts = &metav1.DeleteOptions{}
		if _, err := api.Decode(body, r.Header.Get("Content-Type"), opts, api.Ignore); err != nil {
			return nil, err
		}
		if strings.Contains(r.URL.RawQuery, "dryRun") && len(opts.DryRun) == 0 {
			opts.DryRun = c.query()["dryRun"]
		}
	}
	return opts, checkDeleteOptions(opts)
}
