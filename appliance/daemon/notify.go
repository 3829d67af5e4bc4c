package daemon

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// notifier tells the service manager how the daemon is (sd_notify(3)). Without a service manager it says nothing.
type notifier struct {
	log *slog.Logger

	mu     sync.Mutex // guards what follows
	status string     // as last told
}

// send tells the service manager. That it does not hear is a warning: the daemon works without it.
func (n *notifier) send(lines ...string) {
	if _, err := sd.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		n.log.Warn("the service manager does not hear", "message", lines[0], "error", err)
	}
}

// say sets the text that `systemctl status` shows.
func (n *notifier) say(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	n.mu.Lock()
	defer n.mu.Unlock()
	if text == n.status {
		return
	}
	n.status = text
	n.send("STATUS=" + text)
}

func (n *notifier) ready()    { n.send(sd.SdNotifyReady) }
func (n *notifier) stopping() { n.send(sd.SdNotifyStopping, "STATUS=stopping; the data plane stays") }
func (n *notifier) alive()    { n.send(sd.SdNotifyWatchdog) }

// reloading begins a reload, which ready ends. The time tells the service manager that the READY which follows is of this reload (Type=notify-reload).
func (n *notifier) reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		n.log.Warn("read the monotonic clock", "error", err)
		return
	}
	n.send(sd.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}
