package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
)

// documents returns documents that the tests share, since the first use of
// each costs time.
func documents(t testing.TB) *Documents {
	t.Helper()
	d, err := sharedDocuments()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var sharedDocuments = sync.OnceValues(func() (*Documents, error) {
	return Build(api.Resources(), &version.Info{GitVersion: "v1.37.0"})
})

// messages returns the faults that validation finds, and fails if the compact
// schema lets pass what kin-openapi does not.
func messages(t *testing.T, d *Documents, r *api.Resource, body []byte) []string {
	t.Helper()
	var got []string
	for _, e := range d.validators.explain(r, body) {
		got = append(got, e.Error())
	}
	fast := d.Validate(r, body)
	if len(fast) == 0 && len(got) > 0 {
		t.Errorf("the compact schema of %s lets pass %s\nwhich has the faults %q", r.Plural, body, got)
	}
	return got
}

// TestValidate_corpus validates objects as they are in the files, without a
// detour over Go types.
func TestValidate_corpus(t *testing.T) {
	d := documents(t)
	files, err := filepath.Glob("testdata/valid/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	kinds := map[string]bool{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range bytes.Split(data, []byte("\n---\n")) {
			body, err := yaml.YAMLToJSON(text)
			if err != nil {
				t.Fatalf("%s %d: %v", f, i, err)
			}
			r := resourceOf(t, body)
			kinds[r.GVR().String()] = true
			if got := messages(t, d, r, body); len(got) > 0 {
				t.Errorf("%s object %d is refused: %q", f, i, got)
			}
			obj := r.New()
			if _, err := api.Decode(body, api.MediaJSON, obj, api.Ignore); err != nil {
				t.Fatalf("%s object %d: %v", f, i, err)
			}
			encoded, err := api.Encode(obj)
			if err != nil {
				t.Fatal(err)
			}
			if got := messages(t, d, r, encoded); len(got) > 0 {
				t.Errorf("%s object %d is refused once encoded: %q", f, i, got)
			}
			if !d.validators.fast[r].Fits(encoded) {
				t.Errorf("%s object %d takes the slow way", f, i)
			}
		}
	}
	for _, r := range api.Resources() {
		if !kinds[r.GVR().String()] {
			t.Errorf("no %s among the valid objects", r.GVR())
		}
	}
}

func resourceOf(t *testing.T, body []byte) *api.Resource {
	t.Helper()
	var k struct{ APIVersion, Kind string }
	if err := json.Unmarshal(body, &k); err != nil {
		t.Fatal(err)
	}
	group, version, ok := strings.Cut(k.APIVersion, "/")
	if !ok {
		group, version = "", group
	}
	r := api.ByKind(gvk{Group: group, Version: version, Kind: k.Kind})
	if r == nil {
		t.Fatalf("unknown kind %s %s", k.APIVersion, k.Kind)
	}
	return r
}

func TestValidate_faults(t *testing.T) {
	d := documents(t)
	pods, deployments := api.ByGVR("", "v1", "pods"), api.ByGVR("apps", "v1", "deployments")
	for _, tt := range []struct {
		name string
		r    *api.Resource
		body string
		want []string
	}{
		{"nothing required", pods, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, nil},
		{"no containers", pods, `{"spec":{"containers":null}}`, []string{`spec.containers: Required value`}},
		{"no name", pods, `{"spec":{"containers":[{"image":"i"}]}}`, []string{`spec.containers[0].name: Required value`}},
		{
			"types", pods, `{"metadata":{"labels":{"a":1},"generation":1.5},"spec":{"containers":[{"name":"a","ports":{}}],"hostNetwork":"yes"}}`,
			[]string{
				`metadata.generation: Invalid value: 1.5: must be of type integer`,
				`metadata.labels[a]: Invalid value: 1: must be of type string`,
				`spec.containers[0].ports: Invalid value: "object": must be of type array`,
				`spec.hostNetwork: Invalid value: "yes": must be of type boolean`,
			},
		},
		{
			"special types", pods, `{"metadata":{"creationTimestamp":"yesterday"},"spec":{"containers":[{"name":"a","livenessProbe":{"httpGet":{"port":1.5}},"resources":{"limits":{"cpu":true}}}]}}`,
			[]string{
				`metadata.creationTimestamp: Invalid value: "yesterday": string doesn't match the format "date-time" (parsing time "yesterday" as "2006-01-02T15:04:05.999999999Z07:00": cannot parse "yesterday" as "2006")`,
				`spec.containers[0].livenessProbe.httpGet.port: Invalid value: 1.5: must be of type integer or string`,
				`spec.containers[0].resources.limits[cpu]: Invalid value: true: must be of type string or number`,
			},
		},
		{"integer too large", deployments, `{"spec":{"replicas":2147483648,"selector":{},"template":{}}}`, []string{`spec.replicas: Invalid value: 2147483648: integer doesn't match the format "int32" (value should be between -2147483648 and 2147483647)`}},
		{"no selector", deployments, `{"spec":{"selector":null,"template":{"spec":{"containers":null}}}}`, []string{`spec.selector: Required value`, `spec.template.spec.containers: Required value`}},
		{"incomplete status", pods, `{"status":{"conditions":[{}],"containerStatuses":[{"name":"a"}]}}`, nil},
		{"wrong status", pods, `{"status":{"conditions":{}}}`, []string{`status.conditions: Invalid value: "object": must be of type array`}},
		{"null item", pods, `{"spec":{"containers":[null]}}`, []string{`spec.containers[0]: Required value: must not be null`}},
		{"bad base64", api.ByGVR("", "v1", "secrets"), `{"data":{"a":"%"}}`, []string{`data[a]: Invalid value: "%": string doesn't match the format "byte" (illegal base64 data at input byte 0)`}},
		{"plugin", api.ByGVR("plugins.proa.io", "v1", "admissionplugins"), `{"spec":{"module":"m","phases":null,"rules":null,"settings":[1]}}`, []string{`spec.phases: Required value`, `spec.rules: Required value`}},
		{"an array", pods, `[]`, []string{`<nil>: Invalid value: "array": must be of type object`}},
		{"no JSON", pods, `{"metadata":`, []string{`<nil>: Invalid value: "": must be JSON: unexpected end of JSON input`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, messages(t, d, tt.r, []byte(tt.body))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// required are the pointers and lists that random objects may lack.
var required = []string{ // a constant in all but name
	"selector", "containers", "monitors", "secretRef", "nodeSelectorTerms", "priority", "phases", "rules",
	"sideEffects", "admissionReviewVersions", "resources", "verbs", "signature",
	"resourceRules", "nonResourceRules",
}

// TestValidate_random validates objects of all kinds that are filled at
// random, and then the same with some of their JSON changed.
func TestValidate_random(t *testing.T) {
	d := documents(t)
	rnd := rand.New(rand.NewSource(1))
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rnd, serializer.NewCodecFactory(api.Scheme()))
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	for _, r := range api.Resources() {
		if r.Kind == "CustomResourceDefinition" {
			continue // schemas within schemas without end
		}
		slow := 0
		for range rounds {
			obj := r.New()
			fill.Fill(obj)
			body, err := api.Encode(obj)
			if err != nil {
				t.Fatal(err)
			}
			for _, msg := range messages(t, d, r, body) {
				if !allowedFault(msg) {
					t.Errorf("valid %s is refused: %s\n%s", r.Kind, msg, body)
				}
			}
			if !d.validators.fast[r].Fits(body) {
				slow++
			}
			for range 8 {
				messages(t, d, r, mutate(rnd, body))
			}
		}
		t.Logf("%s: %d of %d take the slow way", r.Plural, slow, rounds)
	}
}

func allowedFault(msg string) bool {
	for _, f := range required {
		if strings.HasSuffix(msg, f+": Required value") {
			return true
		}
	}
	return false
}

// mutate puts another JSON value in place of one, or damages the text.
func mutate(rnd *rand.Rand, body []byte) []byte {
	values := []string{"null", "1", "-1", "1.5", "1e3", "2147483648", "9223372036854775808", "true", `""`, `"x"`, "[]", "{}", "[null]", `{"a":null}`, `"2026-02-30T00:00:00Z"`, `"\u0061"`, "01", "nul"}
	var spots []int
	for i, b := range body {
		if b == ':' || b == '[' {
			spots = append(spots, i)
		}
	}
	at := spots[rnd.Intn(len(spots))] + 1
	end := at
	dec := json.NewDecoder(bytes.NewReader(body[at:]))
	var raw json.RawMessage
	if dec.Decode(&raw) == nil {
		end = at + int(dec.InputOffset())
	}
	return fmt.Appendf(nil, "%s%s%s", body[:at], values[rnd.Intn(len(values))], body[end:])
}

func benchmarkPod(b *testing.B) (*Documents, *api.Resource, []byte) {
	b.Helper()
	data, err := os.ReadFile("testdata/pod-2k.yaml")
	if err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{}
	if _, err := api.Decode(data, api.MediaYAML, pod, api.Strict); err != nil {
		b.Fatal(err)
	}
	body, err := api.Encode(pod)
	if err != nil {
		b.Fatal(err)
	}
	d, r := documents(b), api.ByType(pod)
	if errs := d.Validate(r, body); len(errs) > 0 || !d.validators.fast[r].Fits(body) {
		b.Fatal("slow or refused: ", errs)
	}
	b.ReportMetric(float64(len(body)), "bytes")
	b.ReportAllocs()
	return d, r, body
}

func BenchmarkValidate(b *testing.B) {
	d, r, body := benchmarkPod(b)
	for b.Loop() {
		d.Validate(r, body)
	}
}

// BenchmarkValidate_full is kin-openapi alone, as for a bad object.
func BenchmarkValidate_full(b *testing.B) {
	d, r, body := benchmarkPod(b)
	for b.Loop() {
		d.validators.explain(r, body)
	}
}

func BenchmarkValidators(b *testing.B) {
	for b.Loop() {
		v := validators{resources: api.Resources()}
		v.makeFast()
	}
}
