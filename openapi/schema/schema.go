// Package schema is the structural part of a kind's schema in a form that
// encoded JSON is checked against without decoding it.
package schema

// Types is a set of JSON types.
type Types uint8

// The types of JSON; Integer is a Number without a fraction. Null is of all
// types: it stands for an absent value, as it does to Kubernetes.
const (
	Object Types = 1 << iota
	Array
	String
	Integer
	Number
	Boolean
	Any = Object | Array | String | Integer | Number | Boolean
)

// Format narrows the strings and integers that fit.
type Format uint8

// The formats.
const (
	NoFormat Format = iota
	Int32
	DateTime
	Base64
)

// maxRequired is how many required properties an object may have.
const maxRequired = 64

// maxDepth is how deep objects and arrays may be nested.
const maxDepth = 128

// A Schema says what fits. Schemas may refer to each other in circles. It is
// read-only once a document was checked against it.
type Schema struct {
	Types  Types
	Format Format
	// Opaque is a schema that says more than can be checked here: nothing is
	// known to fit it.
	Opaque bool

	// Properties of an object. Others are checked against Additional, and fit
	// if that is nil.
	Properties map[string]*Property
	Additional *Schema
	// Items of an array; nil lets all fit.
	Items *Schema

	required uint64 // one bit for each required property
	count    int
}

// A Property is a named value of an object.
type Property struct {
	*Schema
	bit uint64 // in the object's set of required properties; 0 if optional
}

// Require makes properties required. The properties must be there. An object
// with too many of them becomes opaque.
func (s *Schema) Require(names ...string) {
	for _, n := range names {
		if s.count == maxRequired || s.Properties[n] == nil {
			s.Opaque = true
			return
		}
		bit := uint64(1) << s.count
		s.Properties[n].bit = bit
		s.required |= bit
		s.count++
	}
}

// Fits reports whether the data is one JSON value that certainly fits the
// schema. False means that it does not, or that it takes a slower look.
func (s *Schema) Fits(data []byte) bool {
	c := cursor{data: data}
	if !c.value(s, 0) {
		return false
	}
	c.space()
	return c.at == len(data)
}
