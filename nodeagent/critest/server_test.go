package critest_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/proa-project/proa/nodeagent/cri"
	"github.com/proa-project/proa/nodeagent/critest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer(t *testing.T) {
	critest.Suite(t, critest.Target{Runtime: dial(t, critest.Start(t))})
}

func TestServerIsAway(t *testing.T) {
	s := critest.Start(t)
	r := dial(t, s)
	if _, err := r.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if _, err := r.Version(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("version of a dead runtime: %v, want ErrUnavailable", err)
	}
}

func dial(t *testing.T, s *critest.Server) *cri.Runtime {
	t.Helper()
	r, err := cri.Dial(cri.Config{Endpoint: s.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}
