package etcd

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/zap"
)

// TestLog drops what is known to mean nothing, and nothing else.
func TestLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := zapLogger(zerolog.New(&out))
	fresh := zap.Error(errors.New("cannot detect storage schema version: missing term information"))
	log.Info("not severe")
	log.Warn("Failed to detect schema version", fresh)
	log.Error("failed to update storage version", zap.String("cluster-version", "3.7.0"), fresh)
	log.Warn("simple token is not cryptographically signed")
	log.Warn("retrying of unary invoker failed", zap.Error(errors.New("x")))
	log.Warn("75d064f341c6e6e cannot campaign at term 1 since there are still pending configuration changes to apply")
	if out.Len() > 0 {
		t.Errorf("logged: %s", out.String())
	}
	log.Error("failed to update storage version", zap.Error(errors.New("cannot create migration plan")))
	log.With(zap.String("a", "b")).Warn("something else", fresh)
	got := out.String()
	for _, want := range []string{"cannot create migration plan", "something else", `"a":"b"`, `"level":"error"`, `"level":"warn"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in the log: %s", want, got)
		}
	}
}
