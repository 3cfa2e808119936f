package httpapi

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proa-project/proa/api"
)

// A format is how an answer is written down.
type format int

const (
	formatJSON format = iota
	formatYAML
	formatProtobuf
)

func (f format) mediaType() string {
	return [...]string{api.MediaJSON, api.MediaYAML, api.MediaProtobuf}[f]
}

// A shape is as what an answer shows objects.
type shape int

const (
	asObject shape = iota
	asTable
	asMetadata // PartialObjectMetadata
)

// An output is the form of an answer as client and server agreed on it.
type output struct {
	format  format
	shape   shape
	version string // of meta.k8s.io, for shapes but asObject
	include metav1.IncludeObjectPolicy
	pretty  bool
	gzip    bool
}

// plain reports whether objects are written as they are stored.
func (o *output) plain() bool { return o.format == formatJSON && o.shape == asObject }

// What may be negotiated for an answer.
type offers struct {
	protobuf bool // for objects; metadata always can
	shapes   bool
	stream   bool // formats that cannot be streamed are out
}

// negotiate agrees on the form of an answer.
func negotiate(r *http.Request, c *call, offer offers) (output, error) {
	out, ok := accept(r.Header.Get("Accept"), offer)
	if !ok {
		types := []string{api.MediaJSON, api.MediaYAML, api.MediaProtobuf}
		if offer.stream {
			types = []string{api.MediaJSON, api.MediaProtobuf}
		}
		return out, generic(http.StatusNotAcceptable, "only the following media types are accepted: "+strings.Join(types, ", "))
	}
	out.pretty = out.format == formatJSON && !offer.stream && wantsPretty(r, c)
	out.gzip = wantsGzip(r)
	if out.shape == asTable {
		out.include = metav1.IncludeMetadata
		switch p := metav1.IncludeObjectPolicy(c.query().Get("includeObject")); p {
		case "", metav1.IncludeMetadata:
		case metav1.IncludeNone, metav1.IncludeObject:
			out.include = p
		default:
			return out, badRequest("unrecognized includeObject value: %q", p)
		}
	}
	return out, nil
}

// wantsPretty reports whether a human reads the answer.
func wantsPretty(r *http.Request, c *call) bool {
	if q := c.query(); q != nil {
		if _, ok := q["pretty"]; ok {
			return isTrue(q, "pretty")
		}
	}
	agent := r.Header.Get("User-Agent")
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

func wantsGzip(r *http.Request) bool {
	for _, v := range r.Header["Accept-Encoding"] {
		for part := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
			if name == "gzip" && strings.ReplaceAll(params, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}

// A clause is one of the media types that a client accepts.
type clause struct {
	media  string
	params map[string]string
	q      float64
}

// accept returns the first form in the client's order that is on offer.
func accept(header string, offer offers) (output, bool) {
	switch header {
	case "", "*/*", api.MediaJSON:
		return output{}, true
	}
	for _, c := range clauses(header) {
		if out, ok := c.match(offer); ok {
			return out, true
		}
	}
	return output{}, false
}

// clauses returns the media types of an Accept header, best first.
func clauses(header string) []clause {
	var out []clause
	sorted := true
	for part := range strings.SplitSeq(header, ",") {
		c := clause{q: 1}
		part = strings.TrimSpace(part)
		if strings.IndexByte(part, ';') < 0 {
			c.media = strings.ToLower(part)
		} else {
			media, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			c.media, c.params = media, params
			if v, ok := params["q"]; ok {
				q, err := strconv.ParseFloat(v, 64)
				if err != nil || q <= 0 {
					continue
				}
				c.q, sorted = q, false
			}
		}
		out = append(out, c)
	}
	if !sorted {
		slices.SortStableFunc(out, func(a, b clause) int {
			switch {
			case a.q > b.q:
				return -1
			case a.q < b.q:
				return 1
			default:
				return 0
			}
		})
	}
	return out
}

// match returns the form that a clause asks for, if it is on offer.
func (c *clause) match(offer offers) (output, bool) {
	var out output
	if as := c.params["as"]; as != "" {
		if !offer.shapes || c.params["g"] != metav1.GroupName {
			return out, false
		}
		out.version = c.params["v"]
		switch out.version {
		case "v1", "v1beta1":
		default:
			return out, false
		}
		switch as {
		case "Table":
			out.shape = asTable
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			out.shape = asMetadata
		default:
			return out, false
		}
	}
	switch c.media {
	case api.MediaJSON, "application/*", "*/*":
		return out, true
	case api.MediaYAML:
		out.format = formatYAML
		return out, !offer.stream
	case api.MediaProtobuf:
		out.format = formatProtobuf
		return out, out.shape == asMetadata || (out.shape == asObject && offer.protobuf)
	default:
		return out, false
	}
}
