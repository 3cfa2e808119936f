package api

import (
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kruntimejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The media types of bodies.
const (
	MediaJSON     = "application/json"
	MediaYAML     = "application/yaml"
	MediaProtobuf = "application/vnd.kubernetes.protobuf"
)

// ErrMediaType is returned for bodies in a form that cannot be read.
var ErrMediaType = errors.New("the body of the request was in an unknown format - accepted media types include: " +
	MediaJSON + ", " + MediaYAML + ", " + MediaProtobuf)

// Strictness says what happens to unknown and duplicate fields.
type Strictness int

// The levels of strictness, as the fieldValidation parameter names them.
const (
	Ignore Strictness = iota // drop them
	Warn                     // drop them and return a warning for each
	Strict                   // fail
)

// A DecodeError says why a body is not the wanted kind. Its text is that of
// upstream's 400 answer; Unwrap returns the reason alone, for answers that
// quote the body in another way.
type DecodeError struct {
	Want schema.GroupVersionKind
	// Have is the kind that the body names; it is empty if it cannot be told.
	Have schema.GroupVersionKind
	Err  error
	body []byte
	// plain errors are complete without the kinds.
	plain bool
}

// Error returns the text of upstream's answer.
func (e *DecodeError) Error() string {
	switch {
	case e.plain:
		return e.Err.Error()
	case e.Have.Kind != "":
		return fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", e.Have.Kind, e.Have.Version, e.Want.Kind, e.Err)
	default:
		return fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", e.Want.Kind, e.Err, summary(e.body))
	}
}

// Unwrap returns the reason.
func (e *DecodeError) Unwrap() error { return e.Err }

// summary returns the start of a body, in hexadecimal unless it looks like JSON.
func summary(body []byte) string {
	const most = 30
	if len(body) == 0 {
		return "<empty>"
	}
	head, more := body, ""
	if len(head) > most {
		head, more = head[:most], " ..."
	}
	if body[0] == '{' {
		return string(head) + more
	}
	return hex.EncodeToString(head) + more
}

// Decode reads a body of the media type into an empty object. Kind and
// apiVersion may be missing from the body; they are always set in the object.
//
// It returns ErrMediaType for a form that cannot be read, and otherwise a
// *DecodeError. With Strict, unknown and duplicate fields are errors; with
// Warn they are warnings, one text for each.
func Decode(data []byte, mediaType string, into runtime.Object, s Strictness) (warnings []string, err error) {
	gvks, _, err := Scheme().ObjectKinds(into)
	if err != nil {
		return nil, err
	}
	d := decoding{body: data, into: into, gvks: gvks, strictness: s}
	switch baseMediaType(mediaType) {
	case MediaJSON, "":
		return d.json(data, nil)
	case MediaYAML, "application/x-yaml", "text/yaml":
		return d.yaml()
	case MediaProtobuf:
		return nil, d.protobuf()
	default:
		return nil, ErrMediaType
	}
}

func baseMediaType(s string) string {
	if strings.IndexByte(s, ';') < 0 {
		return strings.ToLower(strings.TrimSpace(s))
	}
	base, _, err := mime.ParseMediaType(s)
	if err != nil {
		return s
	}
	return base
}

// A decoding is one call of Decode.
type decoding struct {
	body       []byte
	into       runtime.Object
	gvks       []schema.GroupVersionKind // of into; the first is its own
	strictness Strictness
}

func (d *decoding) fail(have schema.GroupVersionKind, err error) error {
	return &DecodeError{Want: d.gvks[0], Have: have, Err: err, body: d.body}
}

// yaml reads the body's first YAML document.
func (d *decoding) yaml() ([]string, error) {
	data, err := yaml.YAMLToJSON(d.body)
	if err != nil {
		return nil, d.fail(schema.GroupVersionKind{}, err)
	}
	var strict []error
	if d.strictness != Ignore {
		if _, err := yaml.YAMLToJSONStrict(d.body); err != nil {
			strict = append(strict, err)
		}
	}
	return d.json(data, strict)
}

// json reads data; strict are the faults found in it so far.
func (d *decoding) json(data []byte, strict []error) ([]string, error) {
	var err error
	if u, ok := d.into.(*unstructured.Unstructured); ok {
		var more []error
		more, err = decodeFree(data, u, d.strictness != Ignore)
		strict = append(strict, more...)
	} else if d.strictness == Ignore {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, d.into)
	} else {
		var more []error
		more, err = kjson.UnmarshalStrict(data, d.into)
		strict = append(strict, more...)
	}
	have := d.into.GetObjectKind().GroupVersionKind()
	if err != nil || have.Version == "" { // the type may not have been read, or may be nonsense
		gvk, merr := kruntimejson.DefaultMetaFactory.Interpret(data)
		if merr != nil {
			return nil, d.fail(schema.GroupVersionKind{}, merr)
		}
		have = *gvk
	}
	have, mismatch := d.check(have)
	if mismatch != nil {
		return nil, mismatch
	}
	if err != nil {
		return nil, d.fail(have, err)
	}
	d.into.GetObjectKind().SetGroupVersionKind(have)
	if len(strict) == 0 {
		return nil, nil
	}
	if d.strictness == Strict {
		return nil, d.fail(have, runtime.NewStrictDecodingError(strict))
	}
	warnings := make([]string, len(strict))
	for i, err := range strict {
		warnings[i] = err.Error()
	}
	return warnings, nil
}

// protobuf reads an envelope.
func (d *decoding) protobuf() error {
	into, ok := d.into.(protoMessage)
	if !ok {
		return ErrMediaType
	}
	const magic = "k8s\x00"
	switch {
	case len(d.body) == 0:
		return d.fail(schema.GroupVersionKind{}, errors.New("empty data"))
	case !strings.HasPrefix(string(d.body[:min(len(d.body), len(magic))]), magic):
		return d.fail(schema.GroupVersionKind{},
			fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", []byte(magic)))
	case len(d.body) == len(magic):
		return d.fail(schema.GroupVersionKind{}, errors.New("empty body"))
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(d.body[len(magic):]); err != nil {
		return d.fail(schema.GroupVersionKind{}, err)
	}
	have, err := d.check(envelope.GroupVersionKind())
	if err != nil {
		return err
	}
	into.Reset()
	if err := into.Unmarshal(envelope.Raw); err != nil {
		return d.fail(have, err)
	}
	d.into.GetObjectKind().SetGroupVersionKind(have)
	return nil
}

// check fills what have lacks and returns an error if it is not a kind of the
// wanted type.
func (d *decoding) check(have schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	want := d.gvks[0]
	if have.Kind == "" {
		have.Kind = want.Kind
	}
	if have.Version == "" && (have.Group == "" || have.Group == want.Group) {
		have.Group, have.Version = want.Group, want.Version
	}
	if slices.Contains(d.gvks, have) {
		return have, nil
	}
	_, free := d.into.(*unstructured.Unstructured)
	if free && have.GroupVersion() == want.GroupVersion() {
		return have, nil // another kind, which is for validation to say
	}
	if !free && !Scheme().Recognizes(have) {
		return have, d.fail(have, runtime.NewNotRegisteredErrForKind(Scheme().Name(), have))
	}
	if free || have.Kind == want.Kind {
		return have, &DecodeError{Want: want, Have: have, plain: true, Err: fmt.Errorf(
			"the API version in the data (%s) does not match the expected API version (%s)", have.GroupVersion(), want.GroupVersion())}
	}
	family, _, _ := strings.Cut(want.Group, ".")
	if family == "" {
		family = "core"
	}
	return have, d.fail(have, fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion",
		have.Version, have.Kind, family, want.Kind))
}
