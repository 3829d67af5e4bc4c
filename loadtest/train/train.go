// Package train is the demo's training job: a small neural network that learns
// handwritten digits by synchronous, data-parallel SGD. Each rank computes the
// gradient of its shard of every batch; who sums the gradients is the caller's
// choice, Spillway in the worker processes and an independent sum in Reference.
package train

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"spillway/loadtest/reference"
)

// Config is one training run. All ranks must have the same but for Rank.
type Config struct {
	Rank, Workers int
	Hidden        int     // hidden units
	Epochs        int     // passes over the training rows
	Batch         int     // rows a step, over all ranks
	Rate          float32 // learning rate
	Momentum      float32
	Seed          uint64 // of the first weights and of the order of the rows
	// WireBits is what an element of a gradient has in the packets that the gradients are summed in: 16, or else 32.
	WireBits int
}

// Default is the demo's run for that many workers: 150,010 parameters.
func Default(workers int) Config {
	return Config{Workers: workers, Hidden: 2000, Epochs: 15, Batch: 128, Rate: 0.03, Momentum: 0.9, Seed: 1}
}

// ErrConfig is wrapped by the errors of Validate.
var ErrConfig = errors.New("bad training configuration")

// Validate reports what no run can be made of.
func (c *Config) Validate() error {
	switch {
	case c.Workers < 1 || c.Rank < 0 || c.Rank >= c.Workers:
		return fmt.Errorf("%w: rank %d of %d workers", ErrConfig, c.Rank, c.Workers)
	case c.Hidden < 1 || c.Epochs < 1:
		return fmt.Errorf("%w: %d hidden units, %d epochs", ErrConfig, c.Hidden, c.Epochs)
	case c.Batch < c.Workers:
		return fmt.Errorf("%w: a batch of %d rows for %d workers", ErrConfig, c.Batch, c.Workers)
	}
	return nil
}

// Parameters is the number of elements of the gradient.
func (c *Config) Parameters() int { return parameters(c.Hidden) }

// Epoch is what a rank reports after each pass over the training rows.
type Epoch struct {
	Epoch        int           `json:"epoch"` // from 1
	Rows         int           `json:"rows"`  // the rank trained on in this epoch
	Loss         float64       `json:"loss"`  // cross-entropy, summed over these rows
	Correct      int           `json:"correct"`
	TestRows     int           `json:"test_rows"`
	TestCorrect  int           `json:"test_correct"`
	Weights      string        `json:"weights"` // SHA-256 of all parameters' float32 bits, little-endian
	Steps        int           `json:"steps"`
	Reducing     time.Duration `json:"reducing_ns"` // spent in the reducer
	ReducedBytes int64         `json:"reduced_bytes"`
}

// Reducer replaces the elements of data by their sum over all ranks.
type Reducer func(ctx context.Context, data []float32) error

// Run trains as one rank of the job and hands each epoch to report.
func Run(ctx context.Context, config Config, reduce Reducer, report func(Epoch) error) error {
	s, err := newState(config)
	if err != nil {
		return err
	}
	gradient := make([]float32, config.Parameters())
	return s.run(report, func(batch []int, epoch *Epoch) ([]float32, error) {
		s.gradient(batch, config.Rank, gradient, epoch)
		began := time.Now()
		if err := reduce(ctx, gradient); err != nil {
			return nil, err
		}
		epoch.Reducing += time.Since(began)
		epoch.ReducedBytes += int64(4 * len(gradient))
		return gradient, nil
	})
}

// Reference trains as all ranks in turn and sums their gradients with package
// reference, in packets of the given number of elements. Its epochs count the rows of all ranks.
func Reference(ctx context.Context, config Config, elements int, report func(Epoch) error) error {
	return ReferenceSums(ctx, config, elements, func([]float32) error { return nil }, report)
}

// ReferenceSums is Reference, and hands on the summed gradient of each step, which is only lent.
func ReferenceSums(ctx context.Context, config Config, elements int, step func(sum []float32) error, report func(Epoch) error) error {
	config.Rank = 0
	s, err := newState(config)
	if err != nil {
		return err
	}
	sumOf := reference.SumFloat32
	if config.WireBits == 16 {
		sumOf = reference.SumFloat32In16
	}
	gradients := make([][]float32, config.Workers)
	for rank := range gradients {
		gradients[rank] = make([]float32, config.Parameters())
	}
	return s.run(report, func(batch []int, epoch *Epoch) ([]float32, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for rank, gradient := range gradients {
			s.gradient(batch, rank, gradient, epoch)
		}
		sum, err := sumOf(gradients, elements)
		if err != nil {
			return nil, err
		}
		return sum, step(sum)
	})
}

// state is a rank's network and data.
type state struct {
	config   Config
	data     *Dataset
	network  *network
	velocity []float32
}

func newState(config Config) (*state, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	data, err := Load()
	if err != nil {
		return nil, err
	}
	return &state{
		config:   config,
		data:     data,
		network:  newNetwork(config.Hidden, config.Seed),
		velocity: make([]float32, config.Parameters()),
	}, nil
}

// run is the training loop; sum returns the gradient of a batch, summed over all ranks.
func (s *state) run(report func(Epoch) error, sum func(batch []int, epoch *Epoch) ([]float32, error)) error {
	for number := 1; number <= s.config.Epochs; number++ {
		epoch := Epoch{Epoch: number}
		order := rand.New(rand.NewPCG(s.config.Seed, uint64(number))).Perm(len(s.data.Train))
		for len(order) > 0 {
			batch := order[:min(s.config.Batch, len(order))]
			order = order[len(batch):]
			gradient, err := sum(batch, &epoch)
			if err != nil {
				return fmt.Errorf("epoch %d, step %d: %w", number, epoch.Steps+1, err)
			}
			s.apply(gradient, len(batch))
			epoch.Steps++
		}
		s.test(&epoch)
		epoch.Weights = fingerprint(s.network.params)
		if err := report(epoch); err != nil {
			return err
		}
	}
	return nil
}

// gradient replaces into by the summed gradient of the rank's shard of the batch.
func (s *state) gradient(batch []int, rank int, into []float32, epoch *Epoch) {
	clear(into)
	shard := batch[len(batch)*rank/s.config.Workers : len(batch)*(rank+1)/s.config.Workers]
	for _, i := range shard {
		row := &s.data.Train[i]
		digit, loss := s.network.forward(row)
		s.network.backward(row, into)
		epoch.Loss += loss
		if digit == row.Label {
			epoch.Correct++
		}
	}
	epoch.Rows += len(shard)
}

// apply takes one step of SGD with momentum along the mean gradient of the batch.
func (s *state) apply(gradient []float32, rows int) {
	for i, g := range gradient {
		v := float32(s.config.Momentum*s.velocity[i]) + g/float32(rows)
		s.velocity[i] = v
		s.network.params[i] -= float32(s.config.Rate * v)
	}
}

// test counts the rows kept from training that the network gets right.
func (s *state) test(epoch *Epoch) {
	epoch.TestRows = len(s.data.Test)
	for i := range s.data.Test {
		if digit, _ := s.network.forward(&s.data.Test[i]); digit == s.data.Test[i].Label {
			epoch.TestCorrect++
		}
	}
}

// fingerprint is the SHA-256 of the parameters' bits.
func fingerprint(params []float32) string {
	bytes := make([]byte, 0, 4*len(params))
	for _, p := range params {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(p))
	}
	sum := sha256.Sum256(bytes)
	return hex.EncodeToString(sum[:])
}
