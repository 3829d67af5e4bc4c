//go:build cgo

package main

// #include "library.h"
import "C"

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"unsafe"

	"spillway/appliance/refusal"
	"spillway/worker"
)

// argumentError is about what the caller gave.
type argumentError struct{ cause error }

func (e *argumentError) Error() string { return e.cause.Error() }
func (e *argumentError) Unwrap() error { return e.cause }

func invalid(text string) error { return &argumentError{errors.New(text)} }

// codeOf says what kind of error it is, and what ranks it is about.
func codeOf(err error) (code C.int, ranks uint64) {
	var (
		missing      *worker.MissingRanksError
		dead         *worker.DeadRanksError
		silent       *worker.HomeSilentError
		disagreement *worker.DisagreementError
		nonFinite    *worker.NonFiniteError
		saturated    *worker.SaturatedError
		partial      *worker.PartialError
		argument     *argumentError
		handle       *handleError
		errno        syscall.Errno
	)
	switch {
	case errors.As(err, &handle):
		return C.SPILLWAY_BAD_HANDLE, 0
	case errors.As(err, &argument):
		return C.SPILLWAY_INVALID, 0
	case errors.Is(err, errPending), errors.Is(err, context.DeadlineExceeded):
		return C.SPILLWAY_TIMEOUT, 0
	case errors.As(err, &missing):
		return C.SPILLWAY_MISSING_RANKS, bitmap(missing.Ranks)
	case errors.As(err, &dead):
		return C.SPILLWAY_DEAD_RANKS, bitmap(dead.Ranks)
	case errors.As(err, &silent):
		return C.SPILLWAY_HOME_SILENT, 0
	case errors.As(err, &disagreement):
		return C.SPILLWAY_DISAGREEMENT, 0
	case errors.As(err, &nonFinite):
		return C.SPILLWAY_NON_FINITE, bitmap([]int{nonFinite.Rank})
	case errors.As(err, &saturated):
		return C.SPILLWAY_SATURATED, 0
	case errors.As(err, &partial):
		return C.SPILLWAY_PARTIAL, bitmap(partial.Ranks)
	case errors.Is(err, worker.ErrClosed):
		return C.SPILLWAY_CLOSED, 0
	case errors.Is(err, worker.ErrBroken):
		return C.SPILLWAY_BROKEN, 0
	}
	if refused := refusal.Of(err); refused != nil {
		if refused.Reason == "" {
			return C.SPILLWAY_UNREACHABLE, 0
		}
		return C.SPILLWAY_REFUSED, 0
	}
	if errors.As(err, &errno) {
		return C.SPILLWAY_INTERNAL, 0
	}
	return C.SPILLWAY_INTERNAL, 0
}

func bitmap(ranks []int) (b uint64) {
	for _, r := range ranks {
		b |= 1 << r
	}
	return b
}

// set writes an error to the caller's outcome.
func (out *outcome) set(err error, missing uint64) {
	code, ranks := codeOf(err)
	out.code, out.ranks, out.broken = code, C.uint64_t(ranks|missing), 0
	if errors.Is(err, worker.ErrBroken) || errors.Is(err, worker.ErrClosed) {
		out.broken = 1
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&out.text[0])), len(out.text))
	n := copy(text[:len(text)-1], strings.ReplaceAll(err.Error(), "\n", " "))
	text[n] = 0
}

type outcome C.struct_outcome
