//go:build cgo

package main

// #include "library.h"
import "C"

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"spillway/appliance/refusal"
	"spillway/worker"
)

// joining is a join on its way, with copies of all that C gave.
type joining struct {
	addr, job string
	rank      int
	timeout   time.Duration
	options   []worker.Option
	waiting   worker.Waiting // the last that was heard
}

func joiningOf(o *C.struct_joining) (*joining, error) {
	text := func(s *C.char) string {
		if s == nil {
			return ""
		}
		return C.GoString(s)
	}
	j := &joining{addr: text(o.addr), job: text(o.job), rank: int(o.rank), timeout: seconds(o.timeout)}
	switch {
	case j.addr == "":
		return nil, invalid("options.addr is not set: it is the appliance's host:port, or unix: and the path of its socket; of several appliances all, with commas")
	case j.job == "":
		return nil, invalid("options.job is not set: it is the name that the job was created with")
	case j.rank < 0:
		return nil, invalid(fmt.Sprintf("options.rank is %d; ranks begin at 0", j.rank))
	case !(o.timeout >= 0), !(o.patience >= 0):
		return nil, invalid("options.timeout and options.patience are seconds, and not below 0")
	case !(o.busy_poll >= 0 && float64(o.busy_poll) <= worker.MaxBusyPoll.Seconds()):
		return nil, invalid(fmt.Sprintf("options.busy_poll is %g seconds, and not between 0 and %g", float64(o.busy_poll), worker.MaxBusyPoll.Seconds()))
	}
	log := logger()
	j.options = []worker.Option{
		worker.WithLogger(log),
		worker.WithProgress(func(w worker.Waiting) {
			j.waiting = w
			log.Info("joining", "job", j.job, "rank", j.rank, "what", w.String())
		}),
	}
	if o.patience > 0 {
		j.options = append(j.options, worker.WithPatience(seconds(o.patience)))
	}
	if o.busy_poll > 0 {
		j.options = append(j.options, worker.WithBusyPoll(seconds(o.busy_poll)))
	}
	if name := text(o.transport); name != "" {
		kind, err := worker.ParseTransport(name)
		if err != nil {
			return nil, invalid("options." + err.Error())
		}
		j.options = append(j.options, worker.WithTransport(kind))
	}
	if address := text(o.address); address != "" {
		addr, err := netip.ParseAddr(address)
		if err != nil || !addr.Is4() {
			return nil, invalid(fmt.Sprintf("options.address is %q, and not an IPv4 address", address))
		}
		j.options = append(j.options, worker.WithAddress(addr))
	}
	config, err := secured(text(o.ca), text(o.cert), text(o.key))
	if err != nil {
		return nil, &argumentError{err}
	}
	if config != nil {
		j.options = append(j.options, worker.WithTLS(config))
	}
	return j, nil
}

// secured is for mutual TLS with what the files have, nil without files.
func secured(ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	if ca == "" || cert == "" || key == "" {
		return nil, errors.New("options.ca, options.cert and options.key are given together, or none of them")
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("options.ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("options.ca: %s has no certificate in PEM", ca)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("options.cert and options.key: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}

func (j *joining) run(r *request) {
	ctx := context.Background()
	if j.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.timeout)
		defer cancel()
	}
	w, err := worker.Join(ctx, j.addr, j.job, j.rank, j.options...)
	if err == nil {
		r.worker = keep(w)
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		r.missing = bitmap(j.waiting.Missing)
	} else if refusal.Of(err) == nil && !errors.As(err, new(syscall.Errno)) {
		// What the worker found wrong before it called anybody.
		err = &argumentError{err}
	}
	r.err = err
}

// logger writes what matters to stderr, one line each. SPILLWAY_LOG says from what level on: debug, info, warn (the default), error.
func logger() *slog.Logger {
	level := slog.LevelWarn
	if text := os.Getenv("SPILLWAY_LOG"); text != "" {
		if err := level.UnmarshalText([]byte(strings.ToUpper(text))); err != nil {
			level = slog.LevelWarn
		}
	}
	return slog.New(slog.NewTextHandler(stderr{}, &slog.HandlerOptions{Level: level}))
}

// stderr is the process's. Unlike os.Stderr it does not end the process when it is a pipe that nobody reads.
type stderr struct{}

func (stderr) Write(p []byte) (int, error) {
	// What cannot be said is lost; there is nobody to tell.
	_, _ = syscall.Write(2, p)
	return len(p), nil
}
