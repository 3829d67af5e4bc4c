package xdp

import "errors"

// Takeover says what Open may do with what it finds and cannot simply go on with.
type Takeover int

const (
	// KeepOut leaves alone what is newer, foreign or of other sizes, and says so with an error.
	KeepOut Takeover = iota
	// TakeOver replaces it. Sums in flight survive where the maps have the same layout and sizes, and are redone by the workers where not.
	TakeOver
)

// Open takes over the aggregator that is pinned in dir, a directory of a bpffs, or loads one and pins it there.
func Open(dir string, config Config, takeover Takeover) (*Aggregator, error) {
	return nil, errors.ErrUnsupported
}

// Detach takes the aggregator that is pinned in dir off all interfaces and out of dir. It is no error that nothing is there.
func Detach(dir string) error { return errors.ErrUnsupported }

// Adopted reports whether maps and jobs are those of the process before.
func (a *Aggregator) Adopted() bool { return false }

// Tag is the kernel's hash over the program's instructions.
func (a *Aggregator) Tag() string { return "" }

// Attachment is an interface that the program is on.
type Attachment struct {
	Ifindex int
	Mode    Mode
}

// Attachments returns the interfaces that the program is on, by index.
func (a *Aggregator) Attachments() []Attachment { return nil }

// Withdraw takes the program off one interface. It is no error that it is not there.
func (a *Aggregator) Withdraw(ifindex int) error { return errors.ErrUnsupported }

// Release closes the process's handles; the pinned data plane goes on without it.
func (a *Aggregator) Release() error { return errors.ErrUnsupported }
