package systemdtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// bootOrder is what the process that has the container is told.
type bootOrder struct {
	Root    string // the Debian, which is not written to
	Dir     string // an empty directory, to mount on
	Console string // file for what the container's console says
	Cgroup  string // name of the control group, in every hierarchy that systemd uses
}

// booted is what it says at every start of the container.
type booted struct{ Boot int }

// rebootStatus is how systemd-nspawn ends, told to keep its unit, when the system in it wants to boot again.
const rebootStatus = 133

// networkPath is the network namespace's, which this process has as its descriptor 3. It is the first process of its process namespace.
const networkPath = "/proc/1/fd/3"

// holdMachine is the process that has the container: first process of a process namespace, so that the kernel ends the container with it;
// a mount namespace; and systemd-nspawn in them, again and again while the system in it reboots. It ends with the container, or with its
// standard input.
func holdMachine(order bootOrder) error {
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(os.Stderr, "machine: ends with its input", err)
		os.Exit(0)
	}()
	// The control groups first: their processes have the ids of this /proc.
	if err := joinCgroup(order.Cgroup); err != nil {
		return err
	}
	if err := mountMachine(order); err != nil {
		return err
	}
	console, err := os.OpenFile(order.Console, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer console.Close()
	for boot := 1; ; boot++ {
		err := runContainer(order, console, boot)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != rebootStatus {
			return err
		}
	}
}

// mountMachine lays a layer in memory over the Debian. This process is in a mount namespace of its own, so it all goes with it.
func mountMachine(order bootOrder) error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount the /proc of the process namespace: %w", err)
	}
	// What systemd-nspawn leaves in /run is left here.
	for _, target := range []string{"/run", order.Dir} {
		if err := unix.Mount("tmpfs", target, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mount a tmpfs on %s: %w", target, err)
		}
	}
	for _, dir := range []string{"upper", "work", "root", "bpf"} {
		if err := os.Mkdir(filepath.Join(order.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%[2]s/work", order.Root, order.Dir)
	if err := unix.Mount("overlay", order.Dir+"/root", "overlay", 0, layers); err != nil {
		return fmt.Errorf("mount an overlay: %w", err)
	}
	return nil
}

// cgroupRoots are where systemd in the container wants its control groups: v2, or the named hierarchy of v1 and v2 beside it.
func cgroupRoots() []string {
	var roots []string
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			roots = append(roots, dir)
		}
	}
	return roots
}

// joinCgroup moves this process, and so the container, into a group that can be removed afterwards.
func joinCgroup(name string) error {
	for _, root := range cgroupRoots() {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("join the control group: %w", err)
		}
	}
	return nil
}

// cgroupPrefix is what the groups of tests are called, with the process id of the test behind it.
const cgroupPrefix = "spillway-systemdtest-"

// removeStale removes the groups of tests that were killed: what was in them has ended with them.
func removeStale() error {
	var errs []error
	for _, root := range cgroupRoots() {
		dirs, err := filepath.Glob(filepath.Join(root, cgroupPrefix+"*"))
		errs = append(errs, err)
		for _, dir := range dirs {
			test := strings.TrimPrefix(filepath.Base(dir), cgroupPrefix)
			if _, err := os.Stat("/proc/" + test); errors.Is(err, os.ErrNotExist) {
				errs = append(errs, removeCgroup(filepath.Base(dir)))
			}
		}
	}
	return errors.Join(errs...)
}

// removeCgroup removes the group and those that the container's systemd made below it.
func removeCgroup(name string) error {
	var errs []error
	for _, root := range cgroupRoots() {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		})
		errs = append(errs, err)
		for i := len(dirs) - 1; i >= 0; i-- {
			errs = append(errs, unix.Rmdir(dirs[i]))
		}
	}
	return errors.Join(errs...)
}

// runContainer boots once. The bpffs is new each time, as after a real boot, and closed to all but root, as systemd mounts it.
func runContainer(order bootOrder, console io.Writer, boot int) error {
	bpffs := filepath.Join(order.Dir, "bpf")
	if err := unix.Mount("bpf", bpffs, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount a bpffs: %w", err)
	}
	cmd := exec.Command("systemd-nspawn", "--quiet", "--boot", "--directory="+order.Dir+"/root", "--machine=appliance", "--register=no", "--keep-unit",
		"--capability=all", "--system-call-filter=bpf perf_event_open", "--network-namespace-path="+networkPath, "--bind="+bpffs+":/sys/fs/bpf",
		"--link-journal=no", "--resolv-conf=off", "--timezone=off", "--console=pipe")
	cmd.Stdout, cmd.Stderr = console, console
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(booted{boot}); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	err := cmd.Wait()
	return errors.Join(err, unix.Unmount(bpffs, 0))
}
