package xdp

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Names of the directory and in it. A bpffs knows no names with dots.
const (
	stateName      = "aggregator"            // all that is pinned; it is there whole or not at all
	unfinishedName = "aggregator_unfinished" // one that is being made or taken apart
	linkPrefix     = "link_"                 // and the interface's index
	programSuffix  = "_program"
)

// pins is a directory that this process owns. What is in it: one directory with a pin for each map by its name, the two
// programs, the description, the record of attachments, and an XDP link for each interface.
type pins struct {
	dir         string
	lock        *os.File // on the directory itself; the kernel lets go of it with the process
	description *ebpf.Map
	attachments *ebpf.Map
}

func (p *pins) state() string      { return filepath.Join(p.dir, stateName) }
func (p *pins) unfinished() string { return filepath.Join(p.dir, unfinishedName) }
func (p *pins) link(ifindex int) string {
	return filepath.Join(p.state(), linkPrefix+strconv.Itoa(ifindex))
}

// lockPins makes the directory if need be, and takes it for this process.
func lockPins(dir string, create bool) (*pins, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if create {
		if err := onBpffs(dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory to pin in (does its parent belong to this user? names in a bpffs have no dots): %w", err)
		}
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("take %s: %w", dir, err), lock.Close())
	}
	p := &pins{dir: dir, lock: lock}
	// What a crash left of making or taking apart was never in use, or is not any more.
	if err := os.RemoveAll(p.unfinished()); err != nil {
		return nil, errors.Join(fmt.Errorf("clear away an unfinished attempt: %w", err), p.close())
	}
	return p, nil
}

// onBpffs checks the directory, or where it would be made.
func onBpffs(dir string) error {
	at := dir
	for {
		var stat unix.Statfs_t
		err := unix.Statfs(at, &stat)
		switch {
		case err == nil && stat.Type == unix.BPF_FS_MAGIC:
			return nil
		case err == nil:
			return fmt.Errorf("%s is not in a BPF file system, where things can be pinned: `mount -t bpf bpf /sys/fs/bpf`, or name a directory of one that is mounted", dir)
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return fmt.Errorf("look at %s: %w", at, err)
		}
		at = filepath.Dir(at)
	}
}

// stranger is an entry of the directory that Spillway did not make; empty: none.
func (p *pins) stranger() (string, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name() != stateName {
			return e.Name(), nil
		}
	}
	return "", nil
}

// find opens what is pinned, as far as it takes to know what it is. Not found: nothing is.
func (p *pins) find() (d description, found bool, err error) {
	if _, err := os.Lstat(p.state()); errors.Is(err, fs.ErrNotExist) {
		return d, false, nil
	}
	foreign := &ForeignError{
		Where: p.state(),
		What:  "is not an aggregator of Spillway's",
		Do:    "name another directory (aggregator.pin), or move it away",
	}
	p.description, err = ebpf.LoadPinnedMap(filepath.Join(p.state(), "description"), nil)
	if errors.Is(err, fs.ErrPermission) {
		return d, true, fmt.Errorf("%s belongs to another user; run `spillwayd detach` as that user, or start as that user: %w", p.state(), err)
	}
	if err != nil {
		return d, true, foreign
	}
	d, ok := readDescription(p.description)
	if !ok {
		return d, true, foreign
	}
	if p.attachments, err = ebpf.LoadPinnedMap(filepath.Join(p.state(), "attachments"), nil); err != nil {
		return d, true, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return d, true, nil
}

// create pins an aggregator that was loaded: beside its place first, and then into it at once.
func (p *pins) create(a *Aggregator, d description) (err error) {
	if p.description, err = newDescriptionMap(); err != nil {
		return fmt.Errorf("make the description: %w", err)
	}
	if p.attachments, err = newAttachmentsMap(); err != nil {
		return fmt.Errorf("make the record of attachments: %w", err)
	}
	if err := p.description.Put(uint32(0), d); err != nil {
		return fmt.Errorf("write the description: %w", err)
	}
	if err := os.Mkdir(p.unfinished(), 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(p.unfinished()))
		}
	}()
	all := map[string]interface{ Pin(string) error }{"description": p.description, "attachments": p.attachments}
	for name, m := range a.maps() {
		all[name] = *m
	}
	for name, program := range a.programs() {
		all[name+programSuffix] = *program
	}
	for name, object := range all {
		if err := object.Pin(filepath.Join(p.unfinished(), name)); err != nil {
			return fmt.Errorf("pin %s: %w", name, err)
		}
	}
	return os.Rename(p.unfinished(), p.state())
}

// replaceProgram pins a program in the place of an older one, at once.
func (p *pins) replaceProgram(name string, program *ebpf.Program) error {
	beside := filepath.Join(p.state(), name+programSuffix+"_new")
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Of a clone, because an object remembers where it was pinned, and the name changes after.
	clone, err := program.Clone()
	if err != nil {
		return err
	}
	if err := clone.Pin(beside); err != nil {
		return errors.Join(err, clone.Close())
	}
	return errors.Join(os.Rename(beside, filepath.Join(p.state(), name+programSuffix)), clone.Close())
}

// attached reads what is on which interfaces, links included. Interfaces that are gone are in it.
func (p *pins) attached() (all map[int]*attachment, err error) {
	all = make(map[int]*attachment)
	defer func() {
		if err != nil {
			for _, at := range all {
				err = errors.Join(err, at.close())
			}
		}
	}()
	if p.attachments != nil { // else somebody removed it, and the links are all there is to go by
		var ifindex uint32
		var raw []byte
		entries := p.attachments.Iterate()
		for entries.Next(&ifindex, &raw) {
			all[int(ifindex)] = &attachment{ifindex: int(ifindex), record: parseRecord(raw)}
		}
		if err := entries.Err(); err != nil {
			return all, fmt.Errorf("read the record of attachments: %w", err)
		}
	}
	names, err := os.ReadDir(p.state())
	if err != nil {
		return all, err
	}
	for _, entry := range names {
		number, ok := strings.CutPrefix(entry.Name(), linkPrefix)
		index, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		if all[index] == nil {
			all[index] = &attachment{ifindex: index}
		}
		if all[index].link, err = link.LoadPinnedLink(p.link(index), nil); err != nil {
			all[index].link = nil
			return all, fmt.Errorf("open the link of interface %d: %w", index, err)
		}
	}
	return all, nil
}

// forget removes the record of an interface that nothing is on any more.
func (p *pins) forget(ifindex int) error {
	if err := p.attachments.Delete(uint32(ifindex)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget interface %d: %w", ifindex, err)
	}
	return nil
}

// remove takes all pins away: at once, and then one by one.
func (p *pins) remove() error {
	if err := os.Rename(p.state(), p.unfinished()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(p.unfinished())
}

// removeDir removes the directory if it is this user's, who then made it. One that was given to him, one that root finds of another user, and
// one where a file system is mounted stay, empty: whoever made them counts on them.
func (p *pins) removeDir() {
	var stat unix.Stat_t
	err := unix.Stat(p.dir, &stat)
	if err == nil && int(stat.Uid) != os.Geteuid() {
		return
	}
	if err == nil {
		err = os.Remove(p.dir)
	}
	if err != nil {
		slog.Debug("the directory stays", "error", err)
	}
}

// closeMaps gives up the handles.
func (p *pins) closeMaps() error {
	var errs []error
	for _, m := range []**ebpf.Map{&p.description, &p.attachments} {
		errs = append(errs, (*m).Close()) // which nil allows
		*m = nil
	}
	return errors.Join(errs...)
}

// close gives up the handles and the directory.
func (p *pins) close() error { return errors.Join(p.closeMaps(), p.lock.Close()) }

// Detach takes the aggregator that is pinned in dir off all interfaces, which are looked for in the current network namespace,
// and out of dir; its jobs and sums are gone then. It is no error that there is nothing, that interfaces are gone, or that an
// attempt before this one stopped half-way. While a process has the directory open, the error is ErrInUse.
func Detach(dir string) (err error) {
	p, err := lockPins(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.detach(); err != nil {
		return err
	}
	p.removeDir()
	return nil
}

// detach takes everything off and away, but for the directory itself.
func (p *pins) detach() error {
	d, found, err := p.find()
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	if !found {
		return nil
	}
	attached, err := p.attached()
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range attached {
		if err := at.detach(d.FirstPort, d.Ports); err != nil {
			errs = append(errs, fmt.Errorf("detach from interface %d: %w", at.ifindex, err))
		}
		errs = append(errs, at.close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.Join(p.remove(), p.closeMaps())
}
