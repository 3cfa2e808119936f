package cli_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/proa-project/proa/api"
	"github.com/proa-project/proa/api/defaulting"
	"github.com/proa-project/proa/api/validation"
)

// TestKitsAreCopies: what "new" hands out is what the kits are.
func TestKitsAreCopies(t *testing.T) {
	for kit, from := range map[string]string{"kits/c": "../guest/c", "kits/rust/proa-guest": "../guest/rust", "kits/assemblyscript/proa": "../guest/assemblyscript"} {
		files := map[string]bool{}
		for _, dir := range []string{kit, from} {
			err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
				name := strings.TrimPrefix(file, dir)
				switch filepath.Ext(name) {
				case ".h", ".rs", ".ts", ".toml":
					files[name] = true
				}
				if err == nil && d.IsDir() && d.Name() == "target" {
					return fs.SkipDir
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for name := range files {
			a, err1 := os.ReadFile(kit + name)
			b, err2 := os.ReadFile(from + name)
			if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
				t.Errorf("%s%s is not a copy of %s%s: run go generate (%v, %v)", kit, name, from, name, err1, err2)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"Bad_Name"}, {"a", "--lang", "cobol"}, {"a", "--point", "none"}, {"a", "--lang", "c", "--point", "virtual-api"}, {"a", "--dir", dir},
	} {
		if out, err := run(t, append([]string{"new"}, args...)...); err == nil {
			t.Errorf("%v is taken: %s", args, out)
		}
	}
}

// TestObjects: the server takes the objects that "new" writes.
func TestObjects(t *testing.T) {
	for _, point := range []string{"admission", "scheduler", "authorization", "authentication", "conversion", "virtual-api", "reconciler"} {
		dir := filepath.Join(t.TempDir(), "p")
		if out, err := run(t, "new", "my-plugin", "--dir", dir, "--point", point); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, file := range []string{"module.yaml", "plugin.yaml"} {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			var meta metav1.TypeMeta
			if err := yaml.Unmarshal(b, &meta); err != nil {
				t.Fatal(err)
			}
			row := api.ByKind(meta.GroupVersionKind())
			if row == nil {
				t.Errorf("%s of %s: no kind %v", file, point, meta)
				continue
			}
			obj := row.New()
			if _, err := api.Decode(b, api.MediaYAML, obj, api.Strict); err != nil {
				t.Errorf("%s of %s: %v", file, point, err)
				continue
			}
			defaulting.Default(obj)
			if errs := validation.Create(obj); len(errs) > 0 {
				t.Errorf("%s of %s: %v", file, point, errs)
			}
		}
	}
}
