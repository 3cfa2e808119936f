package library

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	pluginsv1 "github.com/proa-project/proa/api/plugins/v1"
)

func versionsOf(digests []string) []pluginsv1.ModuleVersion {
	out := make([]pluginsv1.ModuleVersion, len(digests))
	for i, d := range digests {
		out[i].Digest = d
	}
	return out
}

func TestParseReference(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for s, want := range map[string]reference{
		"example.test/a:b":                    {"example.test", "a", "b", ""},
		"localhost/a/b-c/d_e:v1.2-x_y":        {"localhost", "a/b-c/d_e", "v1.2-x_y", ""},
		"127.0.0.1:5000/a@" + digest:          {"127.0.0.1:5000", "a", "", digest},
		"[::1]:5000/a/b:c@" + digest:          {"[::1]:5000", "a/b", "c", digest},
		"registry.example.test:443/a__b.c:_x": {"registry.example.test:443", "a__b.c", "_x", ""},
	} {
		got, err := parseReference(s)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "a", "a:b", "a/b:c", "example.test/a", "example.test/:b", "example.test/a:", "example.test/a@sha256:00", "example.test/a@sha512:" + strings.Repeat("0", 128),
		"example.test//a:b", "example.test/../a:b", "example.test/a?b=c:d", "user@example.test/a:b", "example.test:/a:b", "https://example.test/a:b",
		"example.test/" + strings.Repeat("a", 600) + ":b",
	} {
		if got, err := parseReference(s); err == nil {
			t.Errorf("%s: got %+v", s, got)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	f.Add("example.test/a:b")
	f.Add("[::1]:5000/a/b@sha256:" + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseReference(s)
		if err != nil {
			return
		}
		again := r.host + "/" + r.repository
		if r.tag != "" {
			again += ":" + r.tag
		}
		if r.digest != "" {
			again += "@" + r.digest
		}
		if again != s {
			t.Errorf("%q was read as %q", s, again)
		}
	})
}

func TestParseCredentials(t *testing.T) {
	auth := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	ref := reference{host: "example.test:5000", repository: "team/policies/a"}
	for _, tc := range []struct {
		auths, want string
	}{
		{`"example.test:5000":{"auth":"` + auth("u:p:q") + `"}`, "u p:q"},
		{`"https://EXAMPLE.test:5000/v1/":{"username":"u","password":"p"}`, "u p"},
		{`"example.test:5000":{"username":"u"},"example.test:5000/team":{"username":"v"},"example.test:5000/team/pol":{"username":"w"}`, "v "},
		{`"example.test:5000":{"auth":"` + auth("u") + `"}`, "error: not user:password"},
		{`"example.test:5000":{"auth":"%%"}`, "error: not user:password"},
		{`"example.test":{"username":"u"},"other.example.test:5000":{}`, "error: no credentials"},
		{`"example.test:5000":{"identitytoken":"i","registrytoken":"r"}`, " "},
		{`"example.test:5000":7`, "error: is no docker configuration"},
	} {
		got, err := parseCredentials([]byte(`{"auths":{`+tc.auths+`}}`), ref)
		text := got.username + " " + got.password
		if err != nil {
			text = "error: " + err.Error()
		}
		if want, failure := strings.CutPrefix(tc.want, "error: "); text != tc.want && (!failure || !strings.Contains(text, want)) {
			t.Errorf("%s: %q, want %q", tc.auths, text, tc.want)
		}
	}
}

func FuzzParseCredentials(f *testing.F) {
	f.Add([]byte(`{"auths":{"example.test":{"auth":"dTpw"}}}`), "example.test", "a/b")
	f.Add([]byte(`{"auths":{"https://example.test/a":{"username":"u","password":"p"}}}`), "example.test", "a/b")
	f.Fuzz(func(t *testing.T, config []byte, host, repository string) {
		c, err := parseCredentials(config, reference{host: host, repository: repository})
		if err != nil && !c.empty() {
			t.Errorf("credentials with the error %v", err)
		}
	})
}

func TestParseChallenge(t *testing.T) {
	for s, want := range map[string]string{
		`Basic realm="x"`: `Basic map[realm:x]`,
		`Bearer realm="https://example.test/t?a=b",service="a, b", scope=c`: `Bearer map[realm:https://example.test/t?a=b scope:c service:a, b]`,
		`Negotiate`:       `Negotiate map[]`,
		`Bearer realm="x`: `Bearer map[realm:x]`,
		``:                ` map[]`,
	} {
		scheme, params := parseChallenge(s)
		if got := fmt.Sprint(scheme, " ", params); got != want {
			t.Errorf("%s: %s, want %s", s, got, want)
		}
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://example.test/t",service="a, b"`)
	f.Add(`Basic a="`)
	f.Fuzz(func(t *testing.T, s string) {
		_, params := parseChallenge(s)
		for k, v := range params {
			if !strings.Contains(s, v) {
				t.Errorf("%q has %q=%q", s, k, v)
			}
		}
	})
}

// FuzzParseArtifact: whatever a registry says, what is taken from it is a digest
// of the right form and within the limit.
func FuzzParseArtifact(f *testing.F) {
	f.Add([]byte(`{"layers":[{"mediaType":"application/wasm","digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","size":7}]}`))
	f.Add([]byte(`{"manifests":[{"digest":"sha256:0","platform":{"architecture":"wasm"}}]}`))
	f.Add([]byte(`{"manifests":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseArtifact(b)
		if err != nil {
			return
		}
		if d, err := a.layer(); err == nil && (len(d.Digest) != 71 || d.Size > maxContent) {
			t.Errorf("layer %+v", d)
		}
		if d, err := a.member(); err == nil && len(d.Digest) != 71 {
			t.Errorf("member %+v", d)
		}
	})
}

// FuzzParseManifest: no stored manifest makes the reader take more than a
// module's size.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"size":524289,"chunks":2,"touched":1,"signatures":[{"key":"k","signature":"AAAA"}]}`))
	f.Add([]byte(`{"size":-1,"chunks":1}`))
	f.Add([]byte(`{"size":1,"chunks":1000000000}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err == nil && (m.Size < 0 || m.Size > maxContent || m.Chunks < 0 || m.Chunks > maxContent/chunkSize) {
			t.Errorf("%+v", m)
		}
	})
}

func TestTrimmed(t *testing.T) {
	all := []string{"e", "d", "c", "b", "a"}
	for _, tc := range []struct {
		current string
		keep    int
		pinned  string
		want    string
	}{
		{"e", 3, "", "edcb"}, {"b", 1, "", "eb"}, {"e", 0, "", "e"}, {"e", 1, "a", "eda"}, {"a", 1, "ed", "edca"}, {"", 2, "", "ed"},
	} {
		pinned := map[string]bool{}
		for _, p := range tc.pinned {
			pinned[string(p)] = true
		}
		var got string
		for _, v := range trimmed(versionsOf(all), tc.current, tc.keep, pinned) {
			got += v.Digest
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("current %s, keep %d, pinned %s: %s", tc.current, tc.keep, tc.pinned, d)
		}
	}
}
