package rack

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"spillway/loadtest/faults"
)

// Oldest kernel that the project supports.
const oldestMajor, oldestMinor = 5, 15

// A Lack is something that this machine does not have or does not allow.
type Lack struct {
	What  string // what is missing
	Fix   string // what to do about it
	Cause error  // what the kernel said; may be nil
}

func (l Lack) String() string {
	s := l.What
	if l.Cause != nil {
		s += fmt.Sprintf(" (%v)", l.Cause)
	}
	return s + ": " + l.Fix
}

// A LackError lists all that Preflight found missing.
type LackError struct{ Lacks []Lack }

func (e *LackError) Error() string {
	lines := make([]string, len(e.Lacks))
	for i, lack := range e.Lacks {
		lines[i] = lack.String()
	}
	return "this machine cannot run a rack:\n  " + strings.Join(lines, "\n  ")
}

const becomeRoot = "run it as root, for example with sudo (in a container: with CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_BPF)"

// Preflight tries all that a rack of this configuration needs in a namespace
// that is thrown away, and returns a *LackError with everything that is missing.
func Preflight(config Config) error {
	if err := config.setDefaults(); err != nil {
		return err
	}
	var lacks []Lack
	if lack := checkKernel(); lack != nil {
		lacks = append(lacks, *lack)
	}
	if config.Tor.Kind == TorBMv2 {
		if _, lack := findBMv2(); lack != nil {
			lacks = append(lacks, *lack)
		}
	}
	n, err := newNamespace("the preflight")
	if err != nil {
		fix := "use a kernel with CONFIG_NET_NS"
		if denied(err) {
			fix = becomeRoot
		}
		return &LackError{append(lacks, Lack{"network namespaces", fix, err})}
	}
	lacks = append(lacks, tryFeatures(n, &config)...)
	if err := n.close(); err != nil {
		return err
	}
	if len(lacks) > 0 {
		return &LackError{lacks}
	}
	return nil
}

// checkKernel compares the kernel's release with the oldest one supported.
func checkKernel() *Lack {
	release, err := KernelRelease()
	if err != nil {
		return &Lack{"the kernel's release", "use Linux", err}
	}
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return &Lack{"a kernel release that can be read, not " + release, "use Linux 5.15 or newer", err}
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return &Lack{"Linux 5.15 or newer, this is " + release, "use a newer kernel", nil}
	}
	return nil
}

// KernelRelease is that of uname(2), for example "6.1.0-18-amd64".
func KernelRelease() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("uname: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// tryFeatures tries one by one; what builds on a missing one is not tried.
func tryFeatures(n *namespace, config *Config) []Lack {
	module := func(option, name string) string {
		return fmt.Sprintf("load it with `modprobe %s`, or use a kernel with %s", name, option)
	}
	var lacks []Lack
	try := func(what, fix string, attempt func() error) bool {
		err := attempt()
		if err == nil {
			return true
		}
		if denied(err) {
			fix = becomeRoot
		}
		lacks = append(lacks, Lack{what, fix, err})
		return false
	}
	try("bridges", module("CONFIG_BRIDGE", "bridge"), func() error {
		_, err := makeBridge(n, "bridge", config.mtu())
		return err
	})
	const name = "try0"
	var at netlink.Link
	if !try("veth links", module("CONFIG_VETH", "veth"), func() (err error) {
		at, err = tryVeth(n, name, config.mtu())
		return err
	}) {
		return lacks
	}
	try("generic receive offload on veth", "use Linux 5.15 or newer", func() error {
		return offload(end{n, name, at.Attrs().Index}, homePortOffload)
	})
	if config.Rate != 0 || config.HomeRate != 0 {
		try("the tbf queue that shapes links", module("CONFIG_NET_SCH_TBF", "sch_tbf")+", or leave the links unshaped", func() error {
			return shape(end{n, name, at.Attrs().Index}, minRate)
		})
	}
	try("mounts of a thread's own, with a bpffs among them", "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_TMPFS", n.ownRun)
	try("native XDP on veth", "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT, 5.15 or newer", func() error {
		return n.do(func() error {
			r, err := newReceiver(at.Attrs().Index)
			return errors.Join(err, r.close())
		})
	})
	try("programs at clsact hooks", module("CONFIG_NET_CLS_BPF, CONFIG_NET_CLS_ACT and CONFIG_NET_SCH_INGRESS", "-a cls_bpf sch_ingress"),
		func() error { return tryHooks(n, at, config) })
	return lacks
}

// tryVeth makes a veth pair of which both ends are up.
func tryVeth(n *namespace, name string, mtu int) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "peer", PeerMTU: uint32(mtu)}
	if err := n.link.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make a veth pair: %w", err)
	}
	peer, err := n.link.LinkByName(veth.PeerName)
	if err != nil {
		return nil, fmt.Errorf("find the peer: %w", err)
	}
	return veth, errors.Join(n.link.LinkSetUp(veth), n.link.LinkSetUp(peer))
}

// tryHooks attaches the fault programs, which do nothing when there are no faults. The aggregator's
// copies for jobs without multicast leave from such a hook as well.
func tryHooks(n *namespace, at netlink.Link, config *Config) error {
	injector, err := faults.Load(config.Faults)
	if err != nil {
		return err
	}
	link := faults.Link{Rate: config.Rate, MTU: config.mtu()}
	return errors.Join(injector.Attach(n.link, at.Attrs().Index, link), injector.Close())
}

// denied reports whether an error is a lack of privilege rather than of a feature.
func denied(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
}
