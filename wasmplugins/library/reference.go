package library

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// A reference names an artifact in a registry.
type reference struct {
	host       string // with the port, if any
	repository string
	tag        string
	digest     string // of the manifest; wins over tag
}

//nolint:gochecknoglobals // built once, never changed
var referenceForms = sync.OnceValue(func() (f struct{ host, repository, tag, digest *regexp.Regexp }) {
	f.host = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	f.repository = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	f.tag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	f.digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	return f
})

// maxReference is the longest reference, in bytes.
const maxReference = 512

// parseReference takes apart registry/repository:tag or
// registry/repository@sha256:hex. No registry is implied, and no tag.
func parseReference(s string) (reference, error) {
	forms := referenceForms()
	if len(s) > maxReference {
		return reference{}, fmt.Errorf("the reference has more than %d bytes", maxReference)
	}
	bad := func(text string) (reference, error) { return reference{}, fmt.Errorf("reference %q: %s", s, text) }
	host, rest, ok := strings.Cut(s, "/")
	if !ok || !forms.host.MatchString(host) || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return bad("must begin with the registry's host and a slash")
	}
	r := reference{host: host}
	rest, r.digest, ok = strings.Cut(rest, "@")
	if ok && !forms.digest.MatchString(r.digest) {
		return bad("the digest must be sha256: and 64 lower-case hexadecimal digits")
	}
	var tagged bool
	r.repository, r.tag, tagged = strings.Cut(rest, ":")
	if tagged && !forms.tag.MatchString(r.tag) {
		return bad("the tag is invalid")
	}
	if !tagged && !ok {
		return bad("has neither tag nor digest")
	}
	if !forms.repository.MatchString(r.repository) {
		return bad("the repository is invalid")
	}
	return r, nil
}

// manifest is what the reference's manifest is asked for by.
func (r *reference) manifest() string {
	if r.digest != "" {
		return r.digest
	}
	return r.tag
}

// errTooLarge is content above the limit.
var errTooLarge = errors.New("larger than the limit")
