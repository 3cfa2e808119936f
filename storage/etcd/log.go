package etcd

import (
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapLogger returns a logger for etcd that writes warnings and errors to log.
func zapLogger(log zerolog.Logger) *zap.Logger {
	return zap.New(&core{log: log})
}

// core is a zap core that writes to zerolog.
type core struct {
	log    zerolog.Logger
	fields []zapcore.Field
}

// Enabled implements zapcore.LevelEnabler.
func (c *core) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{log: c.log, fields: append(slices.Clip(c.fields), fields...)}
}

// Check implements zapcore.Core.
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) || inapplicable[e.Message] {
		return checked
	}
	return checked.AddCore(e, c)
}

// inapplicable are warnings about listeners and users, neither of which the
// server in the process has, and one about each request that has failed, be it
// only for what the caller wants: the caller gets the error, and the store logs
// when an outage begins and ends.
var inapplicable = map[string]bool{ //nolint:gochecknoglobals // a constant in all but name
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true,
	"retrying of unary invoker failed":                                                     true,
}

// newDatabase is what etcd complains about until the first snapshot of a new
// database records the term. It looks for it when it agrees with itself on a
// version, a moment after the first start, and again a few seconds later.
const newDatabase = "missing term information"

// aboutNewDatabase are the messages that are to be expected then; with another
// cause they are written.
var aboutNewDatabase = map[string]bool{ //nolint:gochecknoglobals // a constant in all but name
	"Failed to detect schema version":  true,
	"failed to update storage version": true,
}

// earlyCampaign ends what raft says when its first election falls due before
// the entry that makes the one member a member has been applied, as it does on
// a busy machine. The next tick tries again, and membership never changes
// later.
const earlyCampaign = "since there are still pending configuration changes to apply"

// expected tells whether an entry only says that the database is new.
func expected(e zapcore.Entry, fields []zapcore.Field) bool {
	if strings.HasSuffix(e.Message, earlyCampaign) {
		return true
	}
	return aboutNewDatabase[e.Message] && slices.ContainsFunc(fields, func(f zapcore.Field) bool {
		err, ok := f.Interface.(error)
		return ok && strings.Contains(err.Error(), newDatabase)
	})
}

// Write implements zapcore.Core.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if expected(e, fields) {
		return nil
	}
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range c.fields {
		f.AddTo(encoder)
	}
	for _, f := range fields {
		f.AddTo(encoder)
	}
	level := zerolog.ErrorLevel
	if e.Level == zapcore.WarnLevel {
		level = zerolog.WarnLevel
	}
	c.log.WithLevel(level).Str("etcd", e.Message).Fields(encoder.Fields).Msg("etcd reports")
	return nil
}

// Sync implements zapcore.Core.
func (c *core) Sync() error { return nil }
