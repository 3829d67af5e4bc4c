package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/appliance/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWatchdogHangs: a part that hangs keeps the service manager from hearing that the daemon is alive, and is named; when it answers again, so
// does the daemon.
func TestWatchdogHangs(t *testing.T) {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	t.Setenv("WATCHDOG_USEC", "90000")
	heard := func(within time.Duration) bool {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 100)
		n, err := socket.Read(buffer)
		return err == nil && string(buffer[:n]) == "WATCHDOG=1"
	}

	var log lines
	logger := slog.New(slog.NewTextHandler(&log, nil))
	lock := make(chan struct{}, 1) // a manager's, that somebody does not give back
	l := &liveness{parts: []*part{
		{name: "the quick one", check: func(context.Context) error { return nil }},
		{name: "the deadlocked one", check: func(context.Context) error {
			lock <- struct{}{}
			<-lock
			return nil
		}},
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watchdog(ctx, l, &notifier{log: logger}, logger) }()
	for range 2 {
		if !heard(5 * time.Second) {
			t.Fatal("not heard while all is well")
		}
	}
	lock <- struct{}{}
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(log.String(), "the deadlocked one does not answer"); {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not name the part that hangs: %s", log.String())
		}
		heard(time.Millisecond) // what was said before
	}
	for heard(time.Millisecond) {
	}
	if heard(300 * time.Millisecond) {
		t.Error("heard while a part hangs")
	}
	<-lock
	if !heard(5 * time.Second) {
		t.Error("not heard when it answers again")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLivenessNamesWhatFails(t *testing.T) {
	wrong := errors.New("no such map")
	l := &liveness{parts: []*part{{name: "the data plane", check: func(context.Context) error { return wrong }}}}
	if err := l.check(t.Context()); !errors.Is(err, wrong) || !strings.Contains(err.Error(), "the data plane") {
		t.Errorf("%v", err)
	}
}

func TestWatchThatStopped(t *testing.T) {
	i := &interfaces{}
	if err := i.alive(); err != nil {
		t.Errorf("before it began: %v", err)
	}
	i.mark()
	if err := i.alive(); err != nil {
		t.Errorf("when it has looked: %v", err)
	}
	i.looked = time.Now().Add(-time.Minute)
	if err := i.alive(); err == nil {
		t.Error("it has not looked for a minute, and is alive")
	}
}

// TestSignals: the first ends in order, the second at once, and SIGHUP neither.
func TestSignals(t *testing.T) {
	signals := make(chan os.Signal)
	d := &daemon{options: Options{Signals: signals}, log: slog.New(slog.DiscardHandler)}
	ctx, end := context.WithCancelCause(t.Context())
	atOnce, reload := make(chan struct{}), make(chan struct{}, 1)
	defer d.listen(end, atOnce, reload)()
	for range 3 { // that nobody reads yet
		signals <- syscall.SIGHUP
	}
	<-reload
	if ctx.Err() != nil {
		t.Fatal("SIGHUP ended it")
	}
	signals <- syscall.SIGTERM
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), errTold) {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
	select {
	case <-atOnce:
		t.Fatal("the first signal ended it at once")
	default:
	}
	signals <- syscall.SIGTERM
	<-atOnce
}

// TestLog: lines for the journal have a priority and no time; others have a time.
func TestLog(t *testing.T) {
	var plain bytes.Buffer
	level := &slog.LevelVar{}
	newLog(&plain, "text", level).Info("hello", "rank", 1)
	if got := plain.String(); !strings.HasPrefix(got, "time=") || !strings.Contains(got, "msg=hello rank=1") {
		t.Errorf("%q", got)
	}

	var out bytes.Buffer
	level.Set(slog.LevelDebug)
	log := slog.New(forJournal(&out, "text", level)).With("job", "train").WithGroup("of")
	log.Debug("a", "time", "tea")
	log.Info("b")
	log.Warn("c")
	log.Error("d")
	want := "<7>level=DEBUG msg=a job=train of.time=tea\n<6>level=INFO msg=b job=train\n<4>level=WARN msg=c job=train\n<3>level=ERROR msg=d job=train\n"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
	out.Reset()
	slog.New(forJournal(&out, "json", level)).Info("e")
	if got := out.String(); got != "<6>{\"level\":\"INFO\",\"msg\":\"e\"}\n" {
		t.Errorf("%q", got)
	}
}

func TestDiffering(t *testing.T) {
	a, b := config.Default(), config.Default()
	compare := func(want ...string) {
		t.Helper()
		if got := differing("", reflect.ValueOf(*a), reflect.ValueOf(*b)); !slices.Equal(got, want) {
			t.Errorf("%q differ, want %q", got, want)
		}
	}
	compare()
	b.Aggregator.MaxJobs++
	b.Jobs.WorkerPorts.First++
	b.Jobs.Quota.Memory = 1
	b.Name = "other"
	b.Interfaces = []config.Interface{{Name: "eth1"}}
	compare("name", "interfaces", "aggregator.max_jobs", "jobs.worker_ports", "jobs.quota.memory")
	a = b
	c := *b
	b = &c
	b.Switch = &config.Switch{}
	compare("switch")
}

// lines are bytes that two goroutines use.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
