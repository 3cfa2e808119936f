// Package scripts_test runs the scripts in testdata, which need no containers.
package scripts_test

import (
	"testing"

	"github.com/proa-project/proa/test/cluster"
	"github.com/proa-project/proa/test/script"
)

func TestScripts(t *testing.T) {
	script.Run(t, "testdata", cluster.Config{}, nil)
}
