package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
)

// newLog is the daemon's log on w. Where w is the journal, lines begin with their priority and have no time of their own: the journal has both
// as fields.
func newLog(w io.Writer, format string, level *slog.LevelVar) *slog.Logger {
	// An error means that it cannot be told whether it is.
	if toJournal, err := journal.StderrIsJournalStream(); err == nil && toJournal {
		return slog.New(forJournal(w, format, level))
	}
	return slog.New(newHandler(w, format, &slog.HandlerOptions{Level: level}))
}

func forJournal(w io.Writer, format string, level *slog.LevelVar) slog.Handler {
	line := &bytes.Buffer{}
	inner := newHandler(line, format, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime})
	return &journalHandler{inner: inner, line: line, out: w, mu: &sync.Mutex{}}
}

func newHandler(w io.Writer, format string, options *slog.HandlerOptions) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// journalHandler puts a priority of syslog, in angle brackets, before each line of another handler (sd-daemon(3)).
type journalHandler struct {
	inner slog.Handler  // writes to line
	line  *bytes.Buffer // shared with the handlers that With makes, as is what guards it
	out   io.Writer
	mu    *sync.Mutex
}

func (h *journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line.Reset()
	fmt.Fprintf(h.line, "<%d>", priority(r.Level))
	if err := h.inner.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.out.Write(h.line.Bytes())
	return err
}

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journalHandler{h.inner.WithAttrs(attrs), h.line, h.out, h.mu}
}

func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{h.inner.WithGroup(name), h.line, h.out, h.mu}
}

// priority is syslog's (RFC 5424, table 2) of a level.
func priority(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 3
	case level >= slog.LevelWarn:
		return 4
	case level >= slog.LevelInfo:
		return 6
	default:
		return 7
	}
}
