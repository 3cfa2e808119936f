package hosts_test

import (
	"os"
	"testing"

	"github.com/proa-project/proa/test/hosts"
)

func TestMain(m *testing.M) { os.Exit(hosts.Run(m.Run)) }

func TestTwoHosts(t *testing.T) {
	f := hosts.New(t)
	a, b := f.Start(t, 1), f.Start(t, 2)
	out, err := a.Command(t.Context(), "hostname").CombinedOutput()
	if err != nil || string(out) != "node1\n" {
		t.Errorf("hostname: %q, %v", out, err)
	}
	for _, h := range []*hosts.Host{a, b} {
		out, err := h.Command(t.Context(), "ip", "route", "show", "default").CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s has a way out: %q, %v", h.Name, out, err)
		}
	}
}
