package cri_test

import (
	"os"
	"testing"

	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/critest"
	"github.com/proa-project/proa/test/hosts"
)

func TestMain(m *testing.M) { os.Exit(hosts.Run(m.Run)) }

func TestContainerd(t *testing.T) {
	h := hosts.New(t).Start(t, 1)
	r, err := cri.Dial(cri.Config{Endpoint: h.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	critest.Suite(t, critest.Target{Runtime: r, CgroupParent: h.CgroupParent + "/suite"})
}
