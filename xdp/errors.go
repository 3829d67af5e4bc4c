package xdp

import "errors"

// ErrInUse: another process has the directory open.
var ErrInUse = errors.New("another process has the pinned aggregator open")

// NewerError refuses a pinned aggregator that is newer than this build.
type NewerError struct {
	Dir                   string
	Layout, Version       uint32 // what is pinned
	OurLayout, OurVersion uint32
}

func (e *NewerError) Error() string { return "newer" }

// ForeignError refuses what is not Spillway's: a program on an interface, or pins in the directory.
type ForeignError struct {
	Where string // a path, or an interface
	What  string // what is there
	Do    string // what to do about it
}

func (e *ForeignError) Error() string { return e.Where + ": " + e.What + ": " + e.Do }

// SizesError refuses to go on with a pinned aggregator that was made for another configuration, or has an older layout of maps.
type SizesError struct {
	Dir  string
	What string // which sizes, pinned and asked for
}

func (e *SizesError) Error() string { return e.Dir + ": " + e.What }
