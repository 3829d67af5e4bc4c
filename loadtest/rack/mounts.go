package rack

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Where the aggregator's host keeps what its daemon needs. It has a /run of its own, which nobody else sees.
const (
	runDir        = "/run"
	daemonDir     = "/run/spillway"
	daemonBPF     = "/run/spillway/bpf"
	daemonPin     = "/run/spillway/bpf/aggregator"
	daemonSocket  = "/run/spillway/spillwayd.sock"
	daemonState   = "/run/spillway/state.db"
	daemonConfig  = "/run/spillway/spillwayd.yaml"
	daemonTLSName = "appliance"
)

// ownRun gives the namespace's thread, and the processes that it starts, mounts of their own: a file system in memory on /run, and a bpffs in it. A
// daemon that is killed leaves its pins and its state there for the next one; when the last process and the thread have ended, however
// they did, the kernel drops it all.
func (n *namespace) ownRun() error {
	return n.do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("give %s mounts of its own: %w", n.name, err)
		}
		for _, m := range []struct {
			source, target, kind string
			flags                uintptr
			data                 string
		}{
			{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""}, // what follows must not show elsewhere
			{"tmpfs", runDir, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
			{"bpf", daemonBPF, "bpf", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "mode=0700"},
		} {
			if m.kind == "bpf" {
				if err := os.MkdirAll(m.target, 0o755); err != nil {
					return fmt.Errorf("directory of %s: %w", n.name, err)
				}
			}
			if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
				return fmt.Errorf("mount %s on %s for %s: %w", m.source, m.target, n.name, err)
			}
		}
		return nil
	})
}
