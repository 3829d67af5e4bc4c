package xdp

import (
	"errors"
	"fmt"
)

// Errors of Open and Detach that callers decide on, besides the types below.
var (
	// ErrInUse: another process has the pinned aggregator open. There is one owner at a time, since the maps have one writer.
	ErrInUse = errors.New("another process has it open; stop that one first")
	// ErrDamaged: what is pinned is Spillway's, but not whole, or it contradicts itself.
	ErrDamaged = errors.New("the pinned aggregator is damaged; run `spillwayd detach` and start again")
)

// NewerError refuses a pinned aggregator that is newer than this build, which therefore cannot know what its maps mean
// or what it does that this build's would not.
type NewerError struct {
	Dir             string
	Layout, Version uint32 // of what is pinned
	// OurLayout and OurVersion are this build's.
	OurLayout, OurVersion uint32
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s holds an aggregator of program version %d (map layout %d), newer than this build's %d (%d): start the newer spillwayd again, or set aggregator.upgrade to put this build's program in its place",
		e.Dir, e.Version, e.Layout, e.OurVersion, e.OurLayout)
}

// ForeignError refuses what is not Spillway's: a program on an interface, or files in the directory.
type ForeignError struct {
	Where string // a path, or an interface
	What  string // what is there
	Do    string // what to do about it
}

func (e *ForeignError) Error() string { return e.Where + " " + e.What + ": " + e.Do }

// SizesError refuses to go on with a pinned aggregator whose maps are not those that the configuration or this build
// asks for. Maps cannot be resized, so its sums in flight would be lost.
type SizesError struct {
	Dir  string
	What string // which sizes, pinned and asked for
}

func (e *SizesError) Error() string {
	return fmt.Sprintf("the aggregator pinned in %s has %s: put the old configuration back, or drain its jobs, run `spillwayd detach` and start again; aggregator.upgrade replaces it at once, and workers redo what is in flight", e.Dir, e.What)
}
