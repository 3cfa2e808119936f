package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A document is one text that is served. It is made when it is first asked
// for, and kept compressed.
type document struct {
	encode   func() ([]byte, error)            // as JSON
	protobuf func(json []byte) ([]byte, error) // nil if there is no such form

	mu   sync.Mutex // guards the fields below
	made *content   // JSON
	pb   *content
}

// A content is one form of a document. It does not change.
type content struct {
	compressed []byte // gzip
	hash       string // of the JSON, in hex
}

func newDocument(encode func() ([]byte, error), protobuf func([]byte) ([]byte, error)) *document {
	return &document{encode: encode, protobuf: protobuf}
}

// json returns the document as JSON.
func (d *document) json() (*content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jsonLocked()
}

func (d *document) jsonLocked() (*content, error) {
	if d.made != nil {
		return d.made, nil
	}
	data, err := d.encode()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	c, err := compress(data, hex.EncodeToString(sum[:]))
	if err != nil {
		return nil, err
	}
	d.made = c
	return c, nil
}

// proto returns the document as protobuf, which has the hash of the JSON.
func (d *document) proto() (*content, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pb != nil {
		return d.pb, nil
	}
	j, err := d.jsonLocked()
	if err != nil {
		return nil, err
	}
	data, err := j.plain()
	if err != nil {
		return nil, err
	}
	if data, err = d.protobuf(data); err != nil {
		return nil, fmt.Errorf("encode OpenAPI document as protobuf: %w", err)
	}
	if d.pb, err = compress(data, j.hash); err != nil {
		return nil, err
	}
	return d.pb, nil
}

func compress(data []byte, hash string) (*content, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		return nil, fmt.Errorf("compress document: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress document: %w", err)
	}
	return &content{compressed: bytes.Clone(b.Bytes()), hash: hash}, nil
}

// plain returns the content as it was before compression.
func (c *content) plain() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(c.compressed))
	if err != nil {
		return nil, fmt.Errorf("decompress document: %w", err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("decompress document: %w", err)
	}
	return data, nil
}

// encodeV3 returns the v3 document of a version as JSON.
func (v *view) encodeV3(gv *schema.GroupVersion) ([]byte, error) {
	doc, err := v.buildV3(gv)
	if err != nil {
		return nil, err
	}
	data, err := encode(doc)
	if err != nil {
		return nil, err
	}
	return v.withSchemas(data, gv)
}

// encodeRoot returns the list of the v3 documents as JSON. Their hashes are in
// it, so it makes them all.
func (v *view) encodeRoot() ([]byte, error) {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for path, doc := range v.v3 {
		c, err := doc.json()
		if err != nil {
			return nil, err
		}
		paths[path] = entry{"/openapi/v3/" + path + "?hash=" + c.hash}
	}
	return json.Marshal(map[string]any{"paths": paths})
}

// buildV3 makes the OpenAPI v3 document of one group and version, or of all of
// them with nil.
func (v *view) buildV3(gv *schema.GroupVersion) (*openapi3.T, error) {
	m := newModel(v.resources)
	var failed error
	ref := func(obj any) *openapi3.SchemaRef {
		if free, ok := obj.(runtime.Unstructured); ok {
			return m.addFree(free.GetObjectKind().GroupVersionKind())
		}
		r, err := m.add(obj)
		if err != nil && failed == nil {
			failed = err
		}
		return r
	}
	paths, params := openapi3.NewPaths(), newParameters()
	seen := map[schema.GroupVersion]bool{}
	for _, r := range v.resources {
		if gv != nil && r.GroupVersion() != *gv {
			continue
		}
		b := &pathBuilder{paths: paths, params: params, ref: ref, tag: tagGroup(r.Group) + "_" + r.Version, id: camel(r.Group, r.Version)}
		if !seen[r.GroupVersion()] {
			seen[r.GroupVersion()] = true
			b.discovery(r.Group, r.Version)
		}
		b.resource(r)
	}
	if failed != nil {
		return nil, failed
	}
	m.finish()
	return &openapi3.T{
		OpenAPI: "3.0.0",
		Info:    &openapi3.Info{Title: "Proa", Version: v.version},
		Paths:   paths,
		Components: &openapi3.Components{
			Schemas: m.schemas,
			SecuritySchemes: openapi3.SecuritySchemes{"BearerToken": {Value: &openapi3.SecurityScheme{
				Type: "apiKey", Name: "authorization", In: "header", Description: "Bearer token",
			}}},
		},
	}, nil
}

// discovery adds the path at which the resources of a version are listed.
func (b *pathBuilder) discovery(group, version string) {
	op := openapi3.NewOperation()
	op.OperationID, op.Description, op.Tags = "get"+b.id+"APIResources", "get available resources", []string{b.tag}
	op.Responses = openapi3.NewResponsesWithCapacity(2)
	op.Responses.Set("401", &openapi3.ResponseRef{Value: openapi3.NewResponse().WithDescription("Unauthorized")})
	b.respond(op, metav1.APIResourceList{}, "", 200)
	b.paths.Set(prefix(group, version)+"/", &openapi3.PathItem{Get: op})
}

// encode returns the document as compact JSON.
func encode(doc *openapi3.T) ([]byte, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	return data, nil
}
