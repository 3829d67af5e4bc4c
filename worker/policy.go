package worker

import (
	"context"
	"time"

	"spillway/wire"
	"spillway/worker/engine"
)

// Policy is what a job does about stragglers (docs/protocol.md section 7). With Quorum 0, or that of all workers, it waits for them. Otherwise
// the sum of a chunk that has waited for After, and has contributions of Quorum workers, is released without the others.
type Policy struct {
	Quorum int           // K
	After  time.Duration // D
	// MaxLag is by how many chunks more than a window the slowest worker may be behind, before the others wait for it.
	MaxLag int
}

func (p *Policy) engine() engine.Policy {
	return engine.Policy{Quorum: p.Quorum, After: int64(p.After), MaxLag: p.MaxLag}
}

// Outcome says who is in the result of a collective, and Span who is in a run of its elements.
type (
	Outcome = engine.Outcome
	Span    = engine.Span
)

// ReduceOption says what to do about ranks that a collective's result lacks. In a job that waits for stragglers no rank is ever lacking.
type ReduceOption func(*engine.Collective)

// RescaleToMean multiplies elements of a float32 sum that lack ranks by the number of all ranks over that of those in it: divided by the number of
// all ranks, they are the mean over those who contributed. The result has the same bits at every rank.
func RescaleToMean() ReduceOption { return func(c *engine.Collective) { c.Rescale = true } }

// WithResidual hands back what the result lacks of this rank: residual, as long as the data and apart from it, gets this rank's own elements where the sum was
// released without them, and zeros elsewhere. Added to the next gradient nothing is lost (error feedback). After an error its content is undefined.
func WithResidual(residual []float32) ReduceOption {
	return func(c *engine.Collective) { c.ResidualF32 = residual }
}

// WithResidualInt32 is WithResidual for int32.
func WithResidualInt32(residual []int32) ReduceOption {
	return func(c *engine.Collective) { c.ResidualI32 = residual }
}

// AllReduceWith is AllReduce with options, and says who is in the result.
func (w *Worker) AllReduceWith(ctx context.Context, data []float32, opts ...ReduceOption) (Outcome, error) {
	return w.reduce(ctx, &engine.Collective{F32: data, Op: wire.Sum}, opts)
}

// AllReduceInt32With is AllReduceInt32 with options, and says who is in the result.
func (w *Worker) AllReduceInt32With(ctx context.Context, data []int32, op wire.Op, opts ...ReduceOption) (Outcome, error) {
	return w.reduce(ctx, &engine.Collective{I32: data, Op: op}, opts)
}

// AllReduceAsyncWith is AllReduceAsync with options; the handle says who is in the result.
func (w *Worker) AllReduceAsyncWith(data []float32, opts ...ReduceOption) (*Handle, error) {
	return w.issue(&engine.Collective{F32: data, Op: wire.Sum}, opts)
}

// AllReduceInt32AsyncWith is AllReduceInt32Async with options; the handle says who is in the result.
func (w *Worker) AllReduceInt32AsyncWith(data []int32, op wire.Op, opts ...ReduceOption) (*Handle, error) {
	return w.issue(&engine.Collective{I32: data, Op: op}, opts)
}

func (w *Worker) reduce(ctx context.Context, c *engine.Collective, opts []ReduceOption) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, context.Cause(ctx)
	}
	h, err := w.issueToDrive(c, opts)
	if err != nil {
		return Outcome{}, err
	}
	w.drive(ctx, h)
	if err := h.Wait(ctx); err != nil {
		return Outcome{}, err
	}
	return h.Outcome(), nil
}

// Outcome says who is in the result, once Wait has returned without an error.
func (h *Handle) Outcome() Outcome { return h.collective.Outcome() }
