package worker

import (
	"errors"

	"spillway/worker/engine"
)

// ErrClosed is the error of collectives of a worker that was closed.
var ErrClosed = errors.New("the worker is closed")

// ErrBroken is in the chain of every error after which this worker must join again; ErrInconsistent means a result that cannot have
// come from this rank's contribution.
var (
	ErrBroken       = engine.ErrBroken
	ErrInconsistent = engine.ErrInconsistent
)

// The errors of collectives, for errors.As.
type (
	MissingRanksError = engine.MissingRanksError
	Gone              = engine.Gone
	HomeSilentError   = engine.HomeSilentError
	DisagreementError = engine.DisagreementError
	NonFiniteError    = engine.NonFiniteError
	SaturatedError    = engine.SaturatedError
	PartialError      = engine.PartialError
)
