package api_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/proa-project/proa/api"
)

// A member is one name and value of an object, in order.
type member struct {
	name  string
	value any // []member, []any, string, json.Number, bool or nil
}

// parse is the dumb twin of the scanner: it decodes everything, in order.
func parse(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return parseValue(d)
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		out := []member{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			out = append(out, member{name.(string), value})
		}
		_, err := d.Token()
		return out, err
	case json.Delim('['):
		out := []any{}
		for d.More() {
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		_, err := d.Token()
		return out, err
	default:
		return token, nil
	}
}

// repeats says whether an object anywhere in v has a name twice. Such objects
// are never stored, and what they mean is nobody's business.
func repeats(v any) bool {
	switch v := v.(type) {
	case []member:
		seen := map[string]bool{}
		for _, m := range v {
			if seen[m.name] || repeats(m.value) {
				return true
			}
			seen[m.name] = true
		}
	case []any:
		return slices.ContainsFunc(v, repeats)
	}
	return false
}

// get returns the value at a path of names, and of 0 for a first element.
func get(v any, path ...string) any {
	for _, name := range path {
		if name == "0" {
			list, _ := v.([]any)
			if len(list) == 0 {
				return nil
			}
			v = list[0]
			continue
		}
		object, _ := v.([]member)
		i := slices.IndexFunc(object, func(m member) bool { return m.name == name })
		if i < 0 {
			return nil
		}
		v = object[i].value
	}
	return v
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// twinExtract does what Extract does, the plain way.
func twinExtract(r *api.Resource, v any) (labels, fields [][2]string) {
	pairs, _ := get(v, "metadata", "labels").([]member)
	for _, m := range pairs {
		labels = append(labels, [2]string{m.name, scalar(m.value)})
	}
	for _, name := range r.Fields {
		var value string
		switch name {
		case "status.podIPs":
		case "status.podIP":
			value = scalar(get(v, "status", "podIPs", "0", "ip"))
		case "source":
			if value = scalar(get(v, "source", "component")); value == "" {
				value = scalar(get(v, "reportingComponent"))
			}
		default:
			value = scalar(get(v, strings.Split(name, ".")...))
		}
		switch {
		case value != "":
		case name == "spec.hostNetwork", name == "spec.unschedulable":
			value = "false"
		case name == "status.replicas":
			value = "0"
		default:
			continue
		}
		fields = append(fields, [2]string{name, value})
	}
	byKey := func(a, b [2]string) int { return strings.Compare(a[0], b[0]) }
	slices.SortFunc(labels, byKey)
	slices.SortFunc(fields, byKey)
	return labels, fields
}

var scanSeeds = []string{
	`{}`, `{"metadata":{}}`, `{"metadata":null,"spec":{}}`, `{"metadata":[1,{"a":"}"}],"kind":"\""}`, ` { "metadata" : { "resourceVersion" : "12" , "name" : "a" } } `,
	`{"a":{"metadata":{"labels":{"x":"y"}}},"metadata":{"labels":{"b":"2","a":"1","c":null,"d":1},"resourceVersion":12}}`,
	`{"spec":{"hostNetwork":true,"unschedulable":true,"nodeName":"nä\u00e4\"\\\\"},"status":{"podIPs":[{"ip":"::1"},{"ip":"2"}],"phase":"Running","replicas":12}}`,
	`{"metad\u0061ta":{"l\u0061bels":{"\u0061":"\ud83d\ude00\ud800"},"resourceVersio\u006e":""}}`, `{"status":{"podIPs":[]}}`, `{"status":{"podIPs":{"ip":"a"}}}`,
	`{"involvedObject":{"kind":"Pod","name":"a"},"reason":"b","source":{"component":""},"reportingComponent":"kubelet","type":"Normal"}`,
	`{"source":{"component":"c"},"reportingComponent":"kubelet"}`, `{"source":null,"reportingComponent":"kubelet"}`,
	`{"metadata":{"labels":{`, `{"a":"\`, `{"metadata":{"name":"a","resourceVersion":`, `[`, ``, `{"a":1}}`, `{"spec":{"nodeName":"a"]}`, `{:`, `{"a" "b"}`, `{"metadata":{"labels":{"a":"b"`,
}

func FuzzExtract(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Add(testdata(f, "pod.json"))
	f.Add(testdata(f, "event.json"))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, err := parse(data)
		_, object := want.([]member)
		compare := err == nil && json.Valid(data) && object && !repeats(want)
		for _, r := range api.Resources() {
			labels, fields, err := r.Extract(data) // never panics
			if !compare || r.StoredAs != nil {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", r.Plural, err)
			}
			wantLabels, wantFields := twinExtract(r, want)
			if diff := cmp.Diff(wantLabels, labels); diff != "" {
				t.Errorf("%s labels (-twin +got)\n%s", r.Plural, diff)
			}
			if diff := cmp.Diff(wantFields, fields); diff != "" {
				t.Errorf("%s fields (-twin +got)\n%s", r.Plural, diff)
			}
		}
	})
}

func FuzzSetRevision(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s), int64(7))
	}
	f.Add(testdata(f, "pod.json"), int64(1<<62))
	f.Fuzz(func(t *testing.T, data []byte, rev int64) {
		before := bytes.Clone(data)
		api.Member(data, "metadata")
		got := api.SetRevision(data, rev) // neither panics
		if !bytes.Equal(before, data) {
			t.Fatal("the value changed")
		}
		want, err := parse(data)
		object, ok := want.([]member)
		if err != nil || !ok || !json.Valid(data) || repeats(want) {
			return
		}
		after, err := parse(got)
		if err != nil || !json.Valid(got) {
			t.Fatalf("%q became no JSON: %q", data, got)
		}
		// the twin takes both to pieces
		number := strconv.FormatInt(rev, 10)
		if v := get(after, "metadata", "resourceVersion"); v != number {
			t.Errorf("resourceVersion is %v", v)
		}
		rest := func(v any) (top, meta []member) {
			for _, m := range v.([]member) {
				if m.name != "metadata" {
					top = append(top, m)
				}
			}
			members, _ := get(v, "metadata").([]member)
			for _, m := range members {
				if m.name != "resourceVersion" {
					meta = append(meta, m)
				}
			}
			return top, meta
		}
		wantTop, wantMeta := rest(object)
		gotTop, gotMeta := rest(after)
		opts := cmp.AllowUnexported(member{})
		if diff := cmp.Diff(wantTop, gotTop, opts); diff != "" {
			t.Errorf("beside metadata (-before +after)\n%s", diff)
		}
		if diff := cmp.Diff(wantMeta, gotMeta, opts); diff != "" {
			t.Errorf("metadata (-before +after)\n%s", diff)
		}
	})
}

func TestSetRevision(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"first in metadata":       {`{"kind":"Pod","metadata":{"name":"a"},"spec":{}}`, `{"kind":"Pod","metadata":{"resourceVersion":"7","name":"a"},"spec":{}}`},
		"empty metadata":          {`{"metadata":{}}`, `{"metadata":{"resourceVersion":"7"}}`},
		"replaced":                {`{"metadata":{"name":"a","resourceVersion":"123","uid":"b"}}`, `{"metadata":{"name":"a","resourceVersion":"7","uid":"b"}}`},
		"replaced, not a string":  {`{"metadata":{"resourceVersion":null}}`, `{"metadata":{"resourceVersion":"7"}}`},
		"metadata is last":        {`{"spec":{"metadata":{}},"metadata":{"name":"a"}}`, `{"spec":{"metadata":{}},"metadata":{"resourceVersion":"7","name":"a"}}`},
		"no metadata":             {`{"kind":"Pod"}`, `{"metadata":{"resourceVersion":"7"},"kind":"Pod"}`},
		"nothing at all":          {`{}`, `{"metadata":{"resourceVersion":"7"}}`},
		"metadata is null":        {`{"metadata":null,"a":1}`, `{"metadata":{"resourceVersion":"7"},"a":1}`},
		"not an object":           {`[]`, `[]`},
		"another resourceVersion": {`{"metadata":{"x":{"resourceVersion":"1"}}}`, `{"metadata":{"resourceVersion":"7","x":{"resourceVersion":"1"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(api.SetRevision([]byte(tc.in), 7)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestExtract(t *testing.T) {
	for name, tc := range map[string]struct {
		group, plural  string
		value          []byte
		labels, fields [][2]string
		err            bool
	}{
		"pod": {
			plural: "pods", value: testdata(t, "pod.json"),
			labels: [][2]string{{"app", "web"}, {"pod-template-hash", "6d4b75cb6d"}, {"tier", "front"}},
			fields: [][2]string{
				{"spec.hostNetwork", "false"},
				{"spec.nodeName", "node-17"},
				{"spec.restartPolicy", "Always"},
				{"spec.schedulerName", "default-scheduler"},
				{"spec.serviceAccountName", "default"},
				{"status.phase", "Running"},
				{"status.podIP", "10.244.3.9"},
			},
		},
		"node": {
			plural: "nodes", value: []byte(`{"spec":{"unschedulable":true}}`),
			fields: [][2]string{{"spec.unschedulable", "true"}},
		},
		"ReplicaSet": {
			group: "apps", plural: "replicasets", value: []byte(`{"status":{"replicas":3}}`),
			fields: [][2]string{{"status.replicas", "3"}},
		},
		"event of the other group": {
			group: "events.k8s.io", plural: "events", value: []byte(`{"involvedObject":{"name":"a"},"reportingComponent":"kubelet"}`),
			fields: [][2]string{{"involvedObject.name", "a"}, {"reportingComponent", "kubelet"}, {"source", "kubelet"}},
		},
		"nothing": {plural: "configmaps", value: []byte(`{"data":{"a":"b"}}`)},
		"a list":  {plural: "configmaps", value: []byte(`[]`), err: true},
		"cut off": {plural: "configmaps", value: []byte(`{"metadata":{"labels":{"a":"b"`), err: true},
	} {
		t.Run(name, func(t *testing.T) {
			labels, fields, err := api.ByGVR(tc.group, "v1", tc.plural).Extract(tc.value)
			if (err != nil) != tc.err {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.labels, labels); diff != "" {
				t.Errorf("labels (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tc.fields, fields); diff != "" {
				t.Errorf("fields (-want +got)\n%s", diff)
			}
		})
	}
}
