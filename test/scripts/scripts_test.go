// Package scripts_test runs the scripts in testdata, which need no containers.
package scripts_test

import (
	"path/filepath"
	"testing"

	"github.com/proa-project/proa/test/cluster"
	"github.com/proa-project/proa/test/script"
)

func TestMain(m *testing.M) { script.Main(m) }

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	script.Run(t, files, cluster.Config{}, nil)
}
