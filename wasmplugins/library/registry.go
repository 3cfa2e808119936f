package library

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/proa-project/proa/wasmplugins/engine"
)

// Media types of registries.
const (
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
)

const (
	maxManifest = 4 << 20  // bytes
	maxToken    = 64 << 10 // bytes
	maxRedirect = 5
)

// moduleLayer reports whether a layer of the media type is a module.
func moduleLayer(mediaType string) bool {
	switch mediaType {
	case MediaType, "application/vnd.wasm.content.layer.v1+wasm", "application/vnd.module.wasm.content.layer.v1+wasm":
		return true
	}
	return false
}

// A descriptor is a reference within an artifact.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  *struct {
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// An artifact is a manifest or an index.
type artifact struct {
	MediaType string       `json:"mediaType"`
	Layers    []descriptor `json:"layers"`
	Manifests []descriptor `json:"manifests"`
}

// parseArtifact decodes a manifest or an index, which may have the media type
// in itself only.
func parseArtifact(b []byte) (artifact, error) {
	var a artifact
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("the manifest is no JSON: %w", err)
	}
	return a, nil
}

// layer returns the one layer that is a module.
func (a *artifact) layer() (descriptor, error) {
	var found []descriptor
	var types []string
	for _, l := range a.Layers {
		if moduleLayer(l.MediaType) {
			found = append(found, l)
		}
		if len(types) < 8 {
			types = append(types, fmt.Sprintf("%q", l.MediaType))
		}
	}
	switch {
	case len(found) == 0:
		return descriptor{}, fmt.Errorf("the image has no layer that is a module, but [%s]", strings.Join(types, ", "))
	case len(found) > 1:
		return descriptor{}, fmt.Errorf("the image has %d layers that are modules", len(found))
	case found[0].Size > maxContent:
		return descriptor{}, fmt.Errorf("the module has %d bytes: %w of %d", found[0].Size, errTooLarge, maxContent)
	}
	return found[0], found[0].check()
}

// member returns the member of an index that is for WebAssembly, or its only one.
func (a *artifact) member() (descriptor, error) {
	i := slices.IndexFunc(a.Manifests, func(d descriptor) bool { return d.Platform != nil && d.Platform.Architecture == "wasm" })
	if i < 0 && len(a.Manifests) != 1 {
		return descriptor{}, fmt.Errorf("the image index has %d members, none of them for the architecture wasm", len(a.Manifests))
	}
	d := a.Manifests[max(i, 0)]
	return d, d.check()
}

func (d *descriptor) check() error {
	if !referenceForms().digest.MatchString(d.Digest) {
		return fmt.Errorf("the image's digest %.100q is not of SHA-256", d.Digest)
	}
	return nil
}

// A session is one pull from one repository.
type session struct {
	http   *http.Client
	scheme string
	ref    reference
	creds  credentials
	auth   string // the header Authorization that the registry has asked for
}

func newSession(rt http.RoundTripper, ref reference, plain bool, creds credentials) *session {
	s := &session{ref: ref, creds: creds, scheme: "https"}
	if plain {
		s.scheme = "http"
	}
	s.http = &http.Client{Transport: rt, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirect {
			return errors.New("too many redirects")
		}
		return s.allowed(r.URL)
	}}
	return s
}

// allowed refuses to leave TLS, which would show credentials or code to others.
func (s *session) allowed(u *url.URL) error {
	if u.Scheme != "https" && (s.scheme != "http" || u.Scheme != "http") {
		return fmt.Errorf("the registry leads to %q, which is not https", u.Scheme+"://"+u.Host)
	}
	return nil
}

// pull returns the module that the session's reference names.
func (s *session) pull(ctx context.Context) ([]byte, error) {
	accept := strings.Join([]string{ociManifest, dockerManifest, ociIndex, dockerIndex}, ", ")
	a, err := s.artifact(ctx, s.ref.manifest(), s.ref.digest, accept)
	if err == nil && len(a.Manifests) > 0 {
		var d descriptor
		if d, err = a.member(); err == nil {
			a, err = s.artifact(ctx, d.Digest, d.Digest, ociManifest+", "+dockerManifest)
		}
	}
	if err != nil {
		return nil, err
	}
	layer, err := a.layer()
	if err != nil {
		return nil, err
	}
	b, err := s.get(ctx, "blobs/"+layer.Digest, "*/*", maxContent)
	if err != nil {
		return nil, err
	}
	if got := engine.Digest(b); got != layer.Digest {
		return nil, fmt.Errorf("the layer %s was sent with the digest %s", layer.Digest, got)
	}
	return b, checkMagic(b)
}

// artifact reads a manifest, which must have the digest unless that is "".
func (s *session) artifact(ctx context.Context, name, digest, accept string) (artifact, error) {
	b, err := s.get(ctx, "manifests/"+name, accept, maxManifest)
	if err != nil {
		return artifact{}, err
	}
	if got := engine.Digest(b); digest != "" && got != digest {
		return artifact{}, fmt.Errorf("the manifest %s was sent with the digest %s", digest, got)
	}
	return parseArtifact(b)
}

// get reads what is at a path of the repository. It authenticates when the
// registry asks for that.
func (s *session) get(ctx context.Context, path, accept string, limit int64) ([]byte, error) {
	for try := 0; ; try++ {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.scheme+"://"+s.ref.host+"/v2/"+s.ref.repository+"/"+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", accept)
		if s.auth != "" {
			r.Header.Set("Authorization", s.auth)
		}
		resp, err := s.http.Do(r)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusUnauthorized || try > 0 {
			b, err := body(resp, limit)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			return b, nil
		}
		challenges := resp.Header.Values("WWW-Authenticate")
		_ = resp.Body.Close() // is not read
		if err := s.authenticate(ctx, challenges); err != nil {
			return nil, err
		}
	}
}

// body reads a good answer, up to a limit. Of a bad one it tells no more than
// the registry's code: the host may be none that is meant to be read.
func body(resp *http.Response, limit int64) ([]byte, error) {
	defer resp.Body.Close() //nolint:errcheck // was only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the registry answers %d%s", resp.StatusCode, registryCode(resp.Body))
	}
	if resp.ContentLength > limit {
		return nil, fmt.Errorf("%d bytes: %w of %d", resp.ContentLength, errTooLarge, limit)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w of %d bytes", errTooLarge, limit)
	}
	return b, nil
}

// registryCode returns the code of a registry's error, such as
// MANIFEST_UNKNOWN, with a space before it.
func registryCode(r io.Reader) string {
	var e struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	if json.NewDecoder(io.LimitReader(r, maxToken)).Decode(&e) != nil || len(e.Errors) == 0 {
		return ""
	}
	code := e.Errors[0].Code
	if len(code) > 64 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return ""
	}
	return " " + code
}

// authenticate answers a challenge.
func (s *session) authenticate(ctx context.Context, challenges []string) error {
	for _, c := range challenges {
		scheme, params := parseChallenge(c)
		switch {
		case strings.EqualFold(scheme, "Basic") && s.creds.username != "":
			r := http.Request{Header: http.Header{}}
			r.SetBasicAuth(s.creds.username, s.creds.password)
			s.auth = r.Header.Get("Authorization")
			return nil
		case strings.EqualFold(scheme, "Bearer") && s.creds.token != "":
			s.auth = "Bearer " + s.creds.token
			return nil
		case strings.EqualFold(scheme, "Bearer"):
			token, err := s.token(ctx, params)
			s.auth = "Bearer " + token
			return err
		}
	}
	if s.creds.empty() {
		return errors.New("the registry answers 401 and there is no pull secret")
	}
	return errors.New("the registry answers 401 and asks for no credentials of a kind that the pull secret has")
}

// token gets a token from whom a challenge names.
func (s *session) token(ctx context.Context, params map[string]string) (string, error) {
	realm, err := url.Parse(params["realm"])
	if err != nil || realm.Host == "" {
		return "", errors.New("the registry names no place to get a token from")
	}
	if err = s.allowed(realm); err != nil {
		return "", err
	}
	q := url.Values{"scope": {"repository:" + s.ref.repository + ":pull"}}
	if params["service"] != "" {
		q.Set("service", params["service"])
	}
	r, err := s.tokenRequest(ctx, realm, q)
	if err != nil {
		return "", err
	}
	resp, err := s.http.Do(r)
	if err != nil {
		return "", fmt.Errorf("get a token: %w", err)
	}
	b, err := body(resp, maxToken)
	if err != nil {
		return "", fmt.Errorf("get a token: %w", err)
	}
	var t struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(b, &t); err != nil || cmp.Or(t.Token, t.Access) == "" {
		return "", errors.New("get a token: the answer has none")
	}
	return cmp.Or(t.Token, t.Access), nil
}

// tokenRequest asks for a token with what credentials there are.
func (s *session) tokenRequest(ctx context.Context, realm *url.URL, q url.Values) (*http.Request, error) {
	if s.creds.identity != "" {
		q.Set("grant_type", "refresh_token")
		q.Set("refresh_token", s.creds.identity)
		q.Set("client_id", "proa")
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(q.Encode()))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return r, err
	}
	u := *realm
	for k, v := range u.Query() {
		q[k] = append(v, q[k]...)
	}
	u.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err == nil && s.creds.username != "" {
		r.SetBasicAuth(s.creds.username, s.creds.password)
	}
	return r, err
}

// parseChallenge takes a header WWW-Authenticate apart.
func parseChallenge(s string) (scheme string, params map[string]string) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	params = map[string]string{}
	for rest != "" {
		var name, value string
		var ok bool
		if name, rest, ok = strings.Cut(rest, "="); !ok {
			break
		}
		if quoted, is := strings.CutPrefix(rest, `"`); is {
			value, rest, _ = strings.Cut(quoted, `"`)
			_, rest, _ = strings.Cut(rest, ",")
		} else {
			value, rest, _ = strings.Cut(rest, ",")
		}
		params[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return scheme, params
}
