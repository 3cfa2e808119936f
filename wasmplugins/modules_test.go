package wasmplugins_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestOtherModules runs the tests of the Go modules that stand in this
// repository beside its own: the kit for guests and the examples.
func TestOtherModules(t *testing.T) {
	for _, dir := range []string{"guest", "../examples/plugins/require-limits", "../examples/plugins/inject-sidecar", "../examples/plugins/website"} {
		for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}} {
			cmd := exec.CommandContext(t.Context(), "go", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("go %s in %s: %v\n%s", args[0], dir, err, out)
			}
		}
	}
}
