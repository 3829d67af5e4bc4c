package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	v1 "spillway/appliance/api/spillway/v1"
)

// The oldest kernel that the aggregator runs on.
const oldestMajor, oldestMinor = 5, 15

// lowMemory is where the kernel soon begins to end processes.
const lowMemory = 64 << 20

// CheckHost is the part of a diagnosis that needs no daemon: kernel, pin directory, memory.
func CheckHost(host Host) []*v1.Finding {
	d := &diagnosis{Sources: Sources{Host: host}}
	d.kernel()
	d.pins()
	d.memory()
	return d.findings
}

func (d *diagnosis) kernel() {
	const check = "kernel"
	worst := len(d.findings)
	var major, minor int
	if _, err := fmt.Sscanf(d.Host.Kernel, "%d.%d", &major, &minor); err == nil && (major < oldestMajor || major == oldestMajor && minor < oldestMinor) {
		d.fail(check, "", fmt.Sprintf("Linux %s is older than %d.%d, the oldest that the aggregator runs on", d.Host.Kernel, oldestMajor, oldestMinor),
			fmt.Sprintf("boot Linux %d.%d or newer", oldestMajor, oldestMinor))
	}
	for _, feature := range d.Host.Missing {
		if errors.Is(feature.Err, fs.ErrPermission) {
			d.warn(check, "", fmt.Sprintf("it could not be tried whether the kernel has %s: %v", feature.Name, feature.Err),
				"run it with CAP_BPF and CAP_NET_ADMIN, for example with sudo")
			break // the others cannot be tried either
		}
		d.fail(check, "", fmt.Sprintf("the kernel lacks %s, which Linux has since %s: %v", feature.Name, feature.Since, feature.Err),
			fmt.Sprintf("boot Linux %d.%d or newer with CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT, CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS",
				oldestMajor, oldestMinor))
	}
	if len(d.findings) == worst && d.Host.Kernel != "" {
		d.fine(check, "", "Linux %s has all that the aggregator needs", d.Host.Kernel)
	}
}

func (d *diagnosis) pins() {
	const check = "pins"
	switch pins := d.Host.Pins; {
	case pins.Dir == "":
	case errors.Is(pins.Err, fs.ErrPermission):
		d.warn(check, "", fmt.Sprintf("it could not be looked at what is pinned in %s: %v", pins.Dir, pins.Err), "run it as root, for example with sudo")
	case pins.Err != nil:
		d.fail(check, "", fmt.Sprintf("the data plane cannot be kept over a restart: %v", pins.Err),
			"mount a bpffs ('mount -t bpf bpf /sys/fs/bpf'), and set aggregator.pin to a directory of it")
	default:
		d.fine(check, "", "%s keeps %d pins", pins.Dir, len(pins.Names))
	}
}

func (d *diagnosis) memory() {
	if available := d.Host.MemoryAvailable; available > 0 && available < lowMemory {
		d.warn("memory", "", fmt.Sprintf("only %d MiB of the host's memory are left", available>>20),
			"end what takes the memory, or lower aggregator.slots: the slots' memory is taken when the data plane is loaded")
	} else if available > 0 {
		d.fine("memory", "", "%d MiB are left", available>>20)
	}
}

// clockSlack is how far in the future a time may lie that was now a moment ago.
const clockSlack = time.Minute

func (d *diagnosis) clock() {
	for _, job := range d.Jobs {
		if ahead := job.Since.AsTime().Sub(d.Now); job.Since != nil && ahead > clockSlack {
			d.warn("clock", "", fmt.Sprintf("the clock was set back: job %s is what it is since a time that comes in %v", job.Spec.GetName(),
				ahead.Round(time.Second)),
				"let chrony or systemd-timesyncd keep the clock; ages and the grace of jobs are wrong until then")
			return
		}
	}
	if !d.Now.IsZero() {
		d.fine("clock", "", "no time of a job lies in the future")
	}
}
