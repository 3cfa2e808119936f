package httpapi

import (
	"net/http"

	"github.com/proa-project/proa/storage"
)

// get answers GET on an object, or on its status.
func (s *Server) get(w http.ResponseWriter, r *http.Request, c *call) error {
	out, err := negotiate(r, c, offers{protobuf: c.protobuf, shapes: true})
	if err != nil {
		return err
	}
	var opts storage.GetOptions
	if q := c.query(); q != nil {
		rev, ok, rerr := revision(q.Get("resourceVersion"))
		if rerr != nil {
			return rerr
		}
		if ok {
			opts = storage.GetOptions{Match: storage.NotOlderThan, Revision: rev}
		}
	}
	item, err := s.cfg.Store.Get(r.Context(), c.Key(c.info.Namespace, c.info.Name), opts)
	if err != nil {
		return c.readError(err)
	}
	value, err := c.own(r.Context(), &item)
	if err != nil {
		return err
	}
	return writeDocument(w, r, c, &out, http.StatusOK, document{value: value})
}

// readError says which object it was that storage has not found.
func (c *call) readError(err error) error {
	return c.StorageError(c.registryCall(), err)
}
