package chaos

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/sys/unix"

	"spillway/loadtest/rack"
	"spillway/loadtest/train"
	"spillway/worker"
)

// assignment is the first line that a worker process is told.
type assignment struct {
	Invitation rack.Invitation `json:"invitation"`
	Pattern    *pattern        `json:"pattern,omitempty"`
	Training   *train.Config   `json:"training,omitempty"`
	// Pace is what the worker does beside; nil: it reduces without a pause.
	Pace *pace `json:"pace,omitempty"`
	// Quorum says that results can lack ranks. A pattern is then of int32, and what a training's results lack of its own is added to the next gradient.
	Quorum bool `json:"quorum,omitempty"`
}

// permit is every other line: the worker may do the steps before Until.
type permit struct {
	Until int `json:"until"`
}

// account is a line that a worker process says: that it has joined, a step, an epoch, or why it cannot go on.
type account struct {
	Joined bool         `json:"joined,omitempty"`
	Step   *stepAccount `json:"step,omitempty"`
	Epoch  *train.Epoch `json:"epoch,omitempty"`
	Error  string       `json:"error,omitempty"`
}

// stepAccount is one collective at one worker.
type stepAccount struct {
	Number int `json:"number"`
	// Start and End are in ns of the monotonic clock, which all processes of a machine share.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Wrong is the first element that is wrong, of a pattern; -1: none.
	Wrong int `json:"wrong"`
	// Hash is the SHA-256 of the result, of a training.
	Hash string `json:"hash,omitempty"`
	// Missed is how many elements of this worker the result lacks.
	Missed int `json:"missed,omitempty"`
}

// RunWorker is the process of a worker: it takes its assignment as a line of JSON, joins, and reduces as far as it may, until its input ends or a
// reduction fails. It says a line for each step.
func RunWorker(ctx context.Context, in io.Reader, out io.Writer) error {
	lines, said := json.NewDecoder(in), json.NewEncoder(out)
	var a assignment
	if err := lines.Decode(&a); err != nil {
		return fmt.Errorf("read the assignment from stdin: %w (this command is for `spill-load chaos` to start)", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &reducer{assignment: a, said: said, permits: make(chan int, 1)}
	go func() { // ends with stdin, or with the process
		for {
			var p permit
			if err := lines.Decode(&p); err != nil {
				cancel(errInputEnded)
				return
			}
			select {
			case <-w.permits: // an older one
			default:
			}
			w.permits <- p.Until
		}
	}()
	err := w.run(ctx)
	if ctx.Err() != nil {
		return nil // told to end: what was under way does not matter any more
	}
	if err != nil {
		return said.Encode(account{Error: err.Error()})
	}
	<-ctx.Done() // until the parent lets go: another worker may still need a result that this one has
	return nil
}

var errInputEnded = errors.New("the input ended")

// A reducer is the state of a worker process.
type reducer struct {
	assignment
	said     *json.Encoder
	permits  chan int
	until    int // it may do the steps before
	next     int // step
	worker   *worker.Worker
	late     bool // the last result lacks all of this rank
	residual []float32
}

func (r *reducer) run(ctx context.Context) (err error) {
	if r.worker, err = r.Invitation.Join(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.worker.Close()) }()
	if err := r.said.Encode(account{Joined: true}); err != nil {
		return err
	}
	if r.Training != nil {
		if err := train.Run(ctx, *r.Training, r.hashed, func(e train.Epoch) error { return r.said.Encode(account{Epoch: &e}) }); err != nil {
			return err
		}
		<-ctx.Done() // it stays a member that can be asked
		return nil
	}
	if r.Quorum {
		return r.reduceIntegers(ctx)
	}
	sums, err := r.Pattern.sums()
	if err != nil {
		return err
	}
	data := make([]float32, r.Pattern.Length)
	for {
		if err := r.wait(ctx); err != nil {
			return err
		}
		r.Pattern.fill(data, r.Invitation.Rank, r.next)
		step, err := r.reduce(ctx, data)
		if err != nil {
			return err
		}
		step.Wrong = differs(data, sums[step.Number%variants])
		if err := r.said.Encode(account{Step: step}); err != nil {
			return err
		}
	}
}

// wait until the next step is allowed.
func (r *reducer) wait(ctx context.Context) error {
	for {
		select {
		case r.until = <-r.permits:
		default:
		}
		if r.next < r.until {
			return nil
		}
		select {
		case r.until = <-r.permits:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reduce does one step.
func (r *reducer) reduce(ctx context.Context, data []float32) (*stepAccount, error) {
	if err := r.pace(ctx); err != nil {
		return nil, err
	}
	step := &stepAccount{Number: r.next, Start: monotonic(), Wrong: -1}
	r.next++
	if err := r.allReduce(ctx, data, step); err != nil {
		return nil, fmt.Errorf("step %d: %w", step.Number, err)
	}
	step.End = monotonic()
	r.late = step.Missed == len(data)
	return step, nil
}

// allReduce is one collective. With a quorum, what was missed of this rank before goes into it.
func (r *reducer) allReduce(ctx context.Context, data []float32, step *stepAccount) error {
	if !r.Quorum {
		return r.worker.AllReduce(ctx, data)
	}
	if r.residual == nil {
		r.residual = make([]float32, len(data))
	}
	for i, missed := range r.residual {
		data[i] += missed
	}
	outcome, err := r.worker.AllReduceWith(ctx, data, worker.WithResidual(r.residual))
	step.Missed = outcome.Missed
	return err
}

// hashed is the reducer of a training.
func (r *reducer) hashed(ctx context.Context, data []float32) error {
	if err := r.wait(ctx); err != nil {
		return err
	}
	step, err := r.reduce(ctx, data)
	if err != nil {
		return err
	}
	step.Hash = hash(data)
	return r.said.Encode(account{Step: step})
}

// hash is the SHA-256 of the elements' bits.
func hash(data []float32) string {
	bytes := make([]byte, 0, 4*len(data))
	for _, v := range data {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
	}
	sum := sha256.Sum256(bytes)
	return hex.EncodeToString(sum[:])
}

// monotonic is the time of CLOCK_MONOTONIC in ns.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every Linux has this clock
	}
	return now.Nano()
}
