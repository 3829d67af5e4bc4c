package xdp

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
)

// Takeover says what Open may do with what it finds and cannot simply go on with.
type Takeover int

const (
	// KeepOut leaves alone what is newer, foreign or of other sizes, and says so with an error.
	KeepOut Takeover = iota
	// TakeOver replaces it. Sums in flight survive where the maps have the same layout and sizes, and are redone by the workers where not.
	TakeOver
)

// Open takes over the aggregator that is pinned in dir, a directory of a bpffs of its own, or loads one and pins it there.
//
// What it finds decides: the same program is adopted, with its maps, jobs, counters and links, and no packet notices; an older
// one with the same layout of maps is replaced over these maps, by a new program that Attach puts into the links. A newer one is a
// *NewerError, other sizes or an older layout a *SizesError, what is not Spillway's a *ForeignError; TakeOver replaces the first two.
// Foreign files in dir it never removes, but under TakeOver it does not mind those beside its own. Another owner is ErrInUse.
//
// It needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, and to be allowed to write to dir; no more, root or not. Attach is still to be called for
// every interface, and Withdraw for those of Attachments that are no longer wanted. End with Release, or with Close, which removes everything.
func Open(dir string, config Config, takeover Takeover) (*Aggregator, error) {
	config, err := config.completed()
	if err != nil {
		return nil, err
	}
	return thisBuild().open(dir, config, takeover)
}

func (b *build) open(dir string, config Config, takeover Takeover) (_ *Aggregator, err error) {
	p, err := lockPins(dir, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if name, err := p.stranger(); err != nil {
		return nil, err
	} else if name != "" && takeover != TakeOver {
		return nil, &ForeignError{
			Where: filepath.Join(p.dir, name), What: "is not Spillway's",
			Do: "give Spillway a directory of its own (aggregator.pin), or move that away",
		}
	}
	a, err := b.takeUp(p, config, takeover)
	if err != nil {
		return nil, err
	}
	a.pins, a.takeover = p, takeover
	return a, nil
}

// takeUp adopts what is in the directory, replaces it, or makes what is to be there.
func (b *build) takeUp(p *pins, config Config, takeover Takeover) (*Aggregator, error) {
	found, there, err := p.find()
	if there && err == nil {
		err = b.judge(p, found, config, takeover)
	}
	if there && err == nil {
		var a *Aggregator
		if a, err = b.adopt(p, found); err == nil {
			return a, nil
		}
	}
	if err != nil {
		var newer *NewerError
		var sizes *SizesError
		if takeover != TakeOver || !errors.As(err, &newer) && !errors.As(err, &sizes) && !errors.Is(err, ErrDamaged) {
			return nil, err
		}
		slog.Warn("the pinned aggregator is taken off and made anew", "dir", p.dir, "reason", err)
		if err := p.detach(); err != nil {
			return nil, err
		}
	}
	a, err := b.load(config, nil)
	if err != nil {
		return nil, err
	}
	if err := p.create(a, b.describe(config)); err != nil {
		return nil, errors.Join(fmt.Errorf("pin the aggregator in %s: %w", p.dir, err), a.objects.Close())
	}
	return a, nil
}

// judge says why what was found cannot be adopted; nil: it can.
func (b *build) judge(p *pins, found description, config Config, takeover Takeover) error {
	sizes := func(what string) error { return &SizesError{Dir: p.dir, What: what} }
	switch differences := found.differences(config); {
	case found.Layout > b.layout || found.Layout == b.layout && found.Version > b.version && takeover != TakeOver:
		return &NewerError{Dir: p.dir, Layout: found.Layout, Version: found.Version, OurLayout: b.layout, OurVersion: b.version}
	case found.Layout < b.layout:
		return sizes(fmt.Sprintf("maps of layout %d, older than this build's %d", found.Layout, b.layout))
	case differences != "":
		return sizes(differences)
	}
	return nil
}
