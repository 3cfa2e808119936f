package webhook

import (
	"testing"
)

// FuzzReply reads whatever a webhook may answer: it is refused, or what is left
// of it is what it may say.
func FuzzReply(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `garbage`, `[]`, `null`, `{"response":null}`, `{"response":{"uid":"u","allowed":true}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W10="}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":false,"status":{"code":-1,"details":{"causes":[{}]}},"warnings":[""],"auditAnnotations":{"":""}}}`,
		`{"response":{"uid":1,"allowed":"x"}}`, `{"response":{"patch":"!"}}`,
	} {
		f.Add([]byte(body), "v1", true)
		f.Add([]byte(body), "v1beta1", false)
	}
	f.Fuzz(func(t *testing.T, body []byte, version string, mutates bool) {
		r, err := decodeReply(body, version, "u", mutates)
		if err != nil {
			if r != nil {
				t.Error("an answer with an error")
			}
			return
		}
		if !mutates && (len(r.Patch) > 0 || r.PatchType != "") {
			t.Errorf("a validating webhook changes: %+v", r)
		}
		if (len(r.Patch) > 0) != (r.PatchType != "") {
			t.Errorf("a patch without a type, or the reverse: %+v", r)
		}
		h := &hook{name: "a"}
		if s := h.denial(r.Result); s.Code < 400 || s.Status == "Success" || s.Message == "" {
			t.Errorf("a denial of %+v", s)
		}
	})
}
