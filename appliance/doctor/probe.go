package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LookAtHost reads what a diagnosis needs of the kernel: of the interfaces in the network namespace of the calling thread, and of the pin directory. It
// changes nothing; what it tries of BPF is gone when it returns.
func LookAtHost(ctx context.Context, interfaces []string, pins string) (Host, error) {
	var host Host
	var errs []error
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		errs = append(errs, fmt.Errorf("uname: %w", err))
	}
	host.Kernel = unix.ByteSliceToString(name.Release[:])
	host.Missing = missingFeatures()
	host.Pins = lookAtPins(pins)
	for _, name := range interfaces {
		if err := ctx.Err(); err != nil {
			return host, err
		}
		link, err := lookAtLink(name)
		if err != nil {
			errs = append(errs, err)
		}
		host.Links = append(host.Links, link)
	}
	var err error
	if host.MemoryAvailable, err = memoryAvailable("/proc/meminfo"); err != nil {
		errs = append(errs, err)
	}
	return host, errors.Join(errs...)
}

// missingFeatures tries what xdp/bpf uses. The library remembers what it found.
func missingFeatures() []Feature {
	var missing []Feature
	for _, f := range []struct {
		name, since string
		try         func() error
	}{
		{"XDP programs (CONFIG_BPF_SYSCALL)", "4.8", func() error { return features.HaveProgramType(ebpf.XDP) }},
		{"tc programs (CONFIG_NET_CLS_BPF)", "4.1", func() error { return features.HaveProgramType(ebpf.SchedCLS) }},
		{"bpf_xdp_adjust_tail", "4.18", func() error { return features.HaveProgramHelper(ebpf.XDP, asm.FnXdpAdjustTail) }},
		{"bpf_spin_lock", "5.1", func() error { return features.HaveProgramHelper(ebpf.XDP, asm.FnSpinLock) }},
		{"bpf_clone_redirect", "4.2", func() error { return features.HaveProgramHelper(ebpf.SchedCLS, asm.FnCloneRedirect) }},
		{"bounded loops", "5.3", features.HaveBoundedLoops},
		{"programs of a million instructions", "5.2", features.HaveLargeInstructions},
		{"per-CPU array maps", "4.6", func() error { return features.HaveMapType(ebpf.PerCPUArray) }},
	} {
		if err := f.try(); err != nil {
			missing = append(missing, Feature{f.name, f.since, err})
		}
	}
	return missing
}

func lookAtPins(dir string) Pins {
	pins := Pins{Dir: dir}
	if dir == "" {
		return pins
	}
	// The directory itself may be made by the daemon; the file system must be there.
	at := dir
	var stat unix.Statfs_t
	for {
		err := unix.Statfs(at, &stat)
		if errors.Is(err, fs.ErrNotExist) && at != "/" {
			at = filepath.Dir(at)
			continue
		}
		if err != nil {
			pins.Err = fmt.Errorf("statfs %s: %w", at, err)
			return pins
		}
		break
	}
	if stat.Type != unix.BPF_FS_MAGIC {
		pins.Err = fmt.Errorf("%s is not on a bpffs", dir)
		return pins
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !entry.IsDir() {
			pins.Names = append(pins.Names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		pins.Err = err
	}
	return pins
}

func lookAtLink(name string) (Link, error) {
	found := Link{Name: name}
	link, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("interface %s: %w", name, err)
	}
	attrs := link.Attrs()
	found.Index, found.MTU, found.Queues = attrs.Index, attrs.MTU, attrs.NumRxQueues
	found.Up = attrs.RawFlags&unix.IFF_UP != 0
	found.Carrier = attrs.RawFlags&unix.IFF_LOWER_UP != 0
	if x := attrs.Xdp; x != nil && x.Attached {
		found.Program = x.ProgId
		found.Mode = "native"
		if x.AttachMode == xdpAttachedGeneric {
			found.Mode = "generic"
		}
		found.Tag = tagOf(x.ProgId)
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return found, fmt.Errorf("addresses of %s: %w", name, err)
	}
	for _, a := range addresses {
		if address, ok := netip.AddrFromSlice(a.IP.To4()); ok {
			found.Addresses = append(found.Addresses, address)
		}
	}
	return found, nil
}

// xdpAttachedGeneric is XDP_ATTACHED_SKB of linux/if_link.h.
const xdpAttachedGeneric = 2

// tagOf asks for a program by its id, for which CAP_SYS_ADMIN is needed: a daemon without it does without.
func tagOf(id uint32) string {
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return ""
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return ""
	}
	return info.Tag
}

func memoryAvailable(path string) (uint64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kilobytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("memory: %s: %q: %w", path, value, err)
			}
			return kilobytes << 10, nil
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return 0, fmt.Errorf("memory: %s has no MemAvailable", path)
}
