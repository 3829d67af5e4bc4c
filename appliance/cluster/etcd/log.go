package etcd

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapTo is a log of etcd's kind that writes into the daemon's. etcd says at info what nobody asked for: that becomes debug.
func zapTo(log *slog.Logger, ending *atomic.Bool) *zap.Logger {
	return zap.New(&core{log: log.With("part", "etcd"), ending: ending})
}

// core is a zapcore.Core.
type core struct {
	log    *slog.Logger
	fields []zapcore.Field
	// ending says that the member is being ended: what fails of that is no failure.
	ending *atomic.Bool
}

func (c *core) level(of zapcore.Level) slog.Level {
	switch {
	case c.ending.Load():
		return slog.LevelDebug
	case of >= zapcore.ErrorLevel:
		return slog.LevelError
	case of >= zapcore.WarnLevel:
		return slog.LevelInfo // a slow disk, a peer that is away: what matters of it the cluster says itself
	}
	return slog.LevelDebug
}

// Enabled implements zapcore.LevelEnabler.
func (c *core) Enabled(of zapcore.Level) bool {
	return c.log.Enabled(context.Background(), c.level(of))
}

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{log: c.log, ending: c.ending, fields: append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements zapcore.Core.
func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c *core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		f.AddTo(values)
	}
	attributes := make([]slog.Attr, 0, len(values.Fields))
	for key, value := range values.Fields {
		attributes = append(attributes, slog.Any(key, value))
	}
	c.log.LogAttrs(context.Background(), c.level(entry.Level), entry.Message, attributes...)
	return nil
}

// Sync implements zapcore.Core.
func (c *core) Sync() error { return nil }
