package httpapi

import "net/http"

// create answers POST on a collection.
func (s *Server) create(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true})
	if err != nil {
		return err
	}
	opts, err := c.parseWriteOptions("CreateOptions")
	if err != nil {
		return err
	}
	obj := c.New()
	warnings, err := s.decodeOwn(w, r, c, obj, opts.strictness)
	if err != nil {
		return err
	}
	rc := c.registryCall()
	rc.Warnings, rc.DryRun, rc.Options = warnings, len(opts.dryRun) > 0, opts.create()
	res, err := c.Create(r.Context(), rc, obj)
	if err != nil {
		writeWarnings(w, rc.Warnings)
		return err
	}
	return writeResult(w, r, c, rc, &out, http.StatusCreated, res)
}
