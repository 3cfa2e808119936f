package integration_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/proa-project/proa/test/cluster"
)

// TestQuietStart starts on an empty directory and on the same again: a server
// that is fine says that it is ready, and no more.
func TestQuietStart(t *testing.T) {
	t.Parallel()
	s := newServer(t, t.TempDir(), "--simulate-nodes", "1")
	for n := range 2 {
		s.start(t)
		cluster.Eventually(t, 10*time.Second, "it says so", func(context.Context) bool {
			return strings.Count(s.log.String(), `"message":"ready"`) == n+1
		})
		s.end(syscall.SIGTERM)
	}
	ready := 0
	for line := range strings.Lines(s.log.String()) {
		switch {
		case strings.HasPrefix(line, "---"): // of this test
		case strings.Contains(line, `"message":"ready"`):
			ready++
		case busy(line): // true, and the machine's fault
		default:
			t.Errorf("the server says: %s", line)
		}
	}
	if ready != 2 {
		t.Errorf("the server says %d times that it is ready; want 2", ready)
	}
}

// busy tells whether a line of the log says that the machine is slow, which a
// server should say and a test cannot help.
func busy(line string) bool {
	for _, text := range []string{"took too long", "slow fdatasync", "tick missed to fire"} {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}
