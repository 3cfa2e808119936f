package httpapi

import (
	"net/http"

	"github.com/proa-project/proa/httpapi/registry"
)

// answerOf returns who makes the answers of a kind of which nothing is stored:
// who is configured to, and otherwise the server itself, which knows who is
// who and may what.
func (s *Server) answerOf(ep *endpoint) registry.Answer {
	if a := s.cfg.Answers[ep.GR().String()]; a != nil {
		return a
	}
	return s.reviews.Answer
}

// answer answers POST on a kind of which nothing is stored.
func (s *Server) answer(by registry.Answer) verb {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true})
		if err != nil {
			return err
		}
		opts, err := c.parseWriteOptions("CreateOptions")
		if err != nil {
			return err
		}
		obj := c.New()
		warnings, err := s.decode(w, r, obj, opts.strictness)
		if err != nil {
			return err
		}
		rc := c.registryCall()
		rc.Warnings, rc.DryRun, rc.Options = warnings, len(opts.dryRun) > 0, opts.create()
		res, err := c.Answer(r.Context(), rc, obj, by)
		if err != nil {
			writeWarnings(w, rc.Warnings)
			return err
		}
		return writeResult(w, r, c, rc, &out, http.StatusCreated, res)
	}
}
