package main

import (
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// lockedBuilder is a writer that two goroutines may use.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestProgress(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var said lockedBuilder
	p := newProgress(&said)
	p.Step("counting sheep", 10)
	p.Advance(3)
	start := p.since
	if p.write(start.Add(patience / 2)) {
		t.Error("a short step is mentioned")
	}
	if !p.write(start.Add(3 * time.Second)) {
		t.Error("a long step is not mentioned")
	}
	p.Step("another", 0)
	p.write(p.since.Add(2 * time.Second))
	p.Close()
	if got := said.String(); got != "counting sheep 3/10, 3 s\nanother, 2 s\n" {
		t.Errorf("said %q", got)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	var said lockedBuilder
	p := startProgress(&said, true)
	p.Step("counting", 0)
	p.write(p.since.Add(2 * time.Second))
	p.write(p.since.Add(3 * time.Second))
	p.Close()
	if got := said.String(); got != "\r\x1b[Kcounting, 2 s\r\x1b[Kcounting, 3 s\r\x1b[K" {
		t.Errorf("said %q", got)
	}
}
