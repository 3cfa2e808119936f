package table

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// plainCells returns the cells of an object from all of its JSON.
func plainCells(t *testing.T, r *api.Resource, value []byte) []byte {
	t.Helper()
	obj := r.New()
	if err := api.DecodeStored(value, obj); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(Row(r, obj, testNow).Cells)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkCells compares the cells from what reads says with those from all.
func checkCells(t *testing.T, w *Writer, value []byte) {
	t.Helper()
	want := plainCells(t, w.resource, value)
	got, err := w.AppendStored([]byte("#"), value)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "#"+string(want) {
		t.Errorf("%s: cells from all of it: %s, from what is said to be read: %s\n%s", w.resource.GVR(), want, got[1:], value)
	}
}

// The cells of the objects that the validation of bodies is tested with.
func TestReads_corpus(t *testing.T) {
	files, err := filepath.Glob("../../openapi/testdata/valid/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			value, err := yaml.YAMLToJSON([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			var kind metav1.TypeMeta
			if err := json.Unmarshal(value, &kind); err != nil {
				t.Fatal(err)
			}
			r := api.ByKind(kind.GroupVersionKind())
			if r == nil {
				t.Fatalf("no row for %v", kind)
			}
			checkCells(t, NewWriter(r, testNow), value)
			n++
		}
	}
	if n < 20 {
		t.Errorf("only %d objects", n)
	}
}

// seeds is how many random objects of each kind are looked at.
const seeds = 200

// FuzzReads compares the cells of random objects. All fields of their types are
// filled in, so that a column of something that reads leaves out shows up.
func FuzzReads(f *testing.F) {
	for seed := range uint64(seeds / 4) {
		f.Add(2 * seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, r := range api.Resources() {
			w := NewWriter(r, testNow)
			checkCells(t, w, randomObject(t, r, seed))
			checkCells(t, w, randomObject(t, r, seed+1)) // nothing of the first is left
		}
	})
}

// Every path that reads names is needed: without it some random object has
// other cells. This also proves that random objects tell.
func TestReads_all(t *testing.T) {
	for _, r := range api.Resources() {
		t.Run(r.GVR().String(), func(t *testing.T) {
			var values, want [][]byte
			for seed := range uint64(seeds) {
				values = append(values, randomObject(t, r, seed))
				want = append(want, plainCells(t, r, values[seed]))
			}
			paths := reads(r)
			for i, path := range paths {
				w := NewWriter(r, testNow)
				w.reads = api.Select(slices.Concat(paths[:i], paths[i+1:])...)
				same := true
				for j := 0; same && j < len(values); j++ {
					got, err := w.AppendStored(nil, values[j])
					same = err == nil && slices.Equal(got, want[j])
				}
				if same {
					t.Errorf("%s makes no difference", path)
				}
			}
		})
	}
}

// randomObject returns a stored object with random values in its fields.
func randomObject(t *testing.T, r *api.Resource, seed uint64) []byte {
	t.Helper()
	obj := r.New()
	filler{rand.New(rand.NewPCG(seed, 1))}.fill(reflect.ValueOf(obj).Elem(), "", 0)
	obj.GetObjectKind().SetGroupVersionKind(r.GVK())
	value, err := api.EncodeStored(obj)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// A filler gives random values to the fields of API types.
type filler struct{ *rand.Rand }

// words are values by the name of the field that make a difference to cells.
var words = map[string][]string{
	"":              {"", "a", "b", "c", "<x> & \"y\"", "é\u2028", " z\n"},
	"Name":          {"a", "b"},
	"RestartPolicy": {"Always", "Never"},
	"Status":        {"True", "True", "False"},
	"Reason":        {"", "", "", "Completed", "PodInitializing", "SchedulingGated", "SchedulingGated", "NodeLost"},
	"Phase":         {"Running", "Pending", "Failed"},
	"Type":          {"Ready", "Initialized", "PodScheduled", "PodScheduled", "InternalIP", "ExternalIP", "x"},
	"ConditionType": {"Ready", "Initialized", "x"},
	"Operator":      {"In", "Exists"},
	"Kind":          {"User", "Group", "ServiceAccount", "x"},
	"Labels":        {"node-role.kubernetes.io/x", "kubernetes.io/role", "app"},
	"Digest":        {"", "sha256:2d711642b726b044", "d"},
}

func (f filler) word(field string) string {
	list := words[field]
	if list == nil {
		list = words[""]
	}
	return list[f.IntN(len(list))]
}

// size returns the length of a list or map, 0 for a pointer to nothing. What is
// deep in an object has less in it, not to be without end.
func (f filler) size(depth int) int {
	switch n := f.IntN(9 + 2*depth); {
	case n < 4:
		return 1
	case n < 7:
		return 2
	}
	return 0
}

func (f filler) fill(v reflect.Value, field string, depth int) {
	if f.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.IntN(3) > 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.IntN(3)))
		if f.IntN(4) == 0 {
			v.SetInt(int64(f.IntN(1 << 30)))
		}
	case reflect.Uint8:
		v.SetUint(uint64(f.IntN(256)))
	case reflect.String:
		v.SetString(f.word(field))
	case reflect.Pointer:
		if f.size(depth) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), field, depth+1)
		}
	case reflect.Slice:
		for range f.size(depth) {
			e := reflect.New(v.Type().Elem()).Elem()
			f.fill(e, field, depth+1)
			v.Set(reflect.Append(v, e))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.size(depth) {
			key, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, field, depth+1)
			f.fill(e, "", depth+1)
			v.SetMapIndex(key, e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), v.Type().Field(i).Name, depth+1)
		}
	default:
		panic("a kind that no API type has: " + v.Type().String())
	}
}

// special fills types whose JSON is not what their fields say.
func (f filler) special(v reflect.Value) bool {
	ago := testNow.Add(-time.Duration(f.IntN(1000)) * time.Second)
	if f.IntN(4) == 0 {
		ago = time.Time{}
	}
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.NewTime(ago)
	case *metav1.MicroTime:
		*p = metav1.NewMicroTime(ago)
	case *metav1.Duration:
		p.Duration = time.Second
	case *resource.Quantity:
		*p = *resource.NewQuantity(int64(f.IntN(100)), resource.DecimalSI)
	case *intstr.IntOrString:
		*p = intstr.FromInt32(int32(f.IntN(100)))
	case *metav1.FieldsV1:
		p.SetRawString(`{"f:a":{}}`)
	case *runtime.RawExtension:
		p.Raw = []byte(`{"a":1}`)
	case *apiextensionsv1.JSONSchemaProps: // is made of itself
		p.Type = "object"
	default:
		return false
	}
	return true
}

func TestAppendColumns(t *testing.T) {
	own := &api.Resource{Kind: "Own", New: func() api.Object { return &corev1.Pod{} }}
	for _, r := range append([]*api.Resource{own}, api.Resources()...) {
		want, err := json.Marshal(Columns(r))
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendColumns([]byte("#"), r); string(got) != "#"+string(want) {
			t.Errorf("%s: got %s, want #%s", r.Kind, got, want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", `<none> & "x\y"`, "é\u2028\u2029", "\xff", "\x00\n\x7f", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendString([]byte("#"), s); string(got) != "#"+string(want) {
			t.Errorf("%q: got %s, want #%s", s, got, want)
		}
	})
}
