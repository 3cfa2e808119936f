package httpapi

import (
	"errors"
	"net/http"

	"github.com/proa-project/proa/httpapi/registry"
	"github.com/proa-project/proa/storage"
)

// deleteCollection answers DELETE on a collection: it deletes what a list with
// the same parameters would show, one after the other.
func (s *Server) deleteCollection(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true})
	if err != nil {
		return err
	}
	lo, err := c.parseListOptions(false)
	if err != nil {
		return err
	}
	sel, err := c.parseSelector()
	if err != nil {
		return err
	}
	opts, err := s.deleteOptions(w, r, c)
	if err != nil {
		return err
	}
	found, err := s.find(r, c, lo, sel)
	if err != nil {
		return err
	}
	meta := c.listMetaOf(&found, sel)
	gone := found.Items[:0]
	for i := range found.Items {
		item := found.Items[i]
		rc := c.registryCall()
		rc.DryRun, rc.Options = len(opts.DryRun) > 0, opts
		rc.Namespace, rc.Name = c.splitKey(item.Key)
		_, err := c.Delete(r.Context(), rc, opts)
		if isGone(err) {
			continue
		}
		if err != nil {
			return err
		}
		gone = append(gone, item)
	}
	return writeList(w, r, c, &out, meta, gone)
}

// isGone reports whether somebody else has deleted an object.
func isGone(err error) bool {
	var refusal *registry.Error
	return errors.Is(err, storage.ErrNotFound) || (errors.As(err, &refusal) && refusal.Reason == registry.NotFound)
}
