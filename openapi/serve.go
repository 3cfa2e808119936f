package openapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
)

// The media types of OpenAPI documents. Of protobuf there are two spellings:
// clients ask for the first, which is not a correct media type.
const (
	mediaJSON     = api.MediaJSON
	mediaV2Client = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	mediaV2       = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	mediaV3Client = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	mediaV3       = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

//nolint:gochecknoglobals // constants in all but name
var (
	v2Types = []string{mediaJSON, mediaV2Client, mediaV2}
	v3Types = []string{mediaJSON, mediaV3Client, mediaV3}
)

// serveOpenAPI answers with a document in one of the types. With the right
// hash in the URL the answer may be kept for ever.
func (d *Documents) serveOpenAPI(w http.ResponseWriter, r *http.Request, doc *document, types []string) {
	header := w.Header()
	header.Add("Vary", "Accept")
	header.Add("Vary", "Accept-Encoding")
	media, ok := choose(r.Header["Accept"], types)
	if !ok {
		writeStatus(w, notAcceptable(types))
		return
	}
	get := doc.json
	if media != mediaJSON {
		get = doc.proto
	}
	c, err := get()
	if err != nil {
		writeStatus(w, err)
		return
	}
	if asked, given := r.URL.Query()["hash"]; given {
		if len(asked) != 1 || asked[0] != c.hash {
			// the client has an old list: send it to what is there now
			u := *r.URL
			q := u.Query()
			q.Set("hash", c.hash)
			u.RawQuery = q.Encode()
			http.Redirect(w, r, u.RequestURI(), http.StatusMovedPermanently) //nolint:gosec // to the path that was asked for, which is one of ours
			return
		}
		header.Set("Cache-Control", "public, immutable")
		header.Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	etag := strconv.Quote(strings.ToUpper(c.hash))
	header.Set("ETag", etag)
	if matches(r.Header["If-None-Match"], etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", strings.ReplaceAll(media, "@", ".")) // clients parse it with package mime
	data := c.compressed
	if acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
	} else if data, err = c.plain(); err != nil {
		writeStatus(w, err)
		return
	}
	write(w, r, data)
}

// write writes a whole body, or for HEAD only says its length.
func write(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method != http.MethodHead {
		w.Write(data) //nolint:errcheck // the client is gone
	}
}

// matches reports whether one of the tags of a header is the tag.
func matches(header []string, etag string) bool {
	for _, h := range header {
		for t := range strings.SplitSeq(h, ",") {
			if t = strings.TrimPrefix(strings.TrimSpace(t), "W/"); t == etag || t == "*" {
				return true
			}
		}
	}
	return false
}

func acceptsGzip(r *http.Request) bool {
	for _, h := range r.Header["Accept-Encoding"] {
		for part := range strings.SplitSeq(h, ",") {
			name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
			if name == "gzip" && strings.ReplaceAll(params, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}

// A clause is one media type of an Accept header.
type clause struct {
	media  string
	params map[string]string
	q      float64
}

// clauses returns the media types of a header, the best first. It is more
// lenient than package mime, which refuses the @ in the OpenAPI types.
func clauses(header []string) []clause {
	var list []clause
	for _, h := range header {
		for part := range strings.SplitSeq(h, ",") {
			if c := parseClause(part); c.media != "" && c.q > 0 {
				list = append(list, c)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b clause) int {
		switch {
		case a.q > b.q:
			return -1
		case a.q < b.q:
			return 1
		}
		return 0
	})
	return list
}

// parseClause reads one media type with its parameters.
func parseClause(text string) clause {
	fields := strings.Split(text, ";")
	c := clause{media: strings.ToLower(strings.TrimSpace(fields[0])), q: 1}
	for _, f := range fields[1:] {
		k, v, _ := strings.Cut(strings.TrimSpace(f), "=")
		if k == "q" {
			if q, err := strconv.ParseFloat(v, 64); err == nil {
				c.q = q
			}
			continue
		}
		if c.params == nil {
			c.params = map[string]string{}
		}
		c.params[strings.ToLower(k)] = strings.Trim(v, `"`)
	}
	return c
}

// choose returns the type that the client likes best; the first if it does not
// care.
func choose(header, types []string) (string, bool) {
	list := clauses(header)
	if len(list) == 0 {
		return types[0], true
	}
	for _, c := range list {
		for _, t := range types {
			if c.covers(t) {
				return t, true
			}
		}
	}
	return "", false
}

// covers reports whether the clause lets a media type pass.
func (c clause) covers(media string) bool {
	major, _, _ := strings.Cut(media, "/")
	return c.media == media || c.media == "*/*" || c.media == major+"/*"
}

// The errors that the documents' handler answers with.
var (
	errNotFound = statusError(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")

	errMethodNotAllowed = statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
)

func notAcceptable(types []string) error {
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only the following media types are accepted: "+strings.Join(types, ", "))
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
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(int(s.Code))
	json.NewEncoder(w).Encode(s) //nolint:errcheck // the client is gone
}
