package train

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"spillway/loadtest/reference"
)

// small is a run that takes a fraction of a second.
func small(workers int) Config {
	c := Default(workers)
	c.Hidden, c.Epochs = 40, 3
	return c
}

func TestDataset(t *testing.T) {
	data, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(data.Train) != 1437 || len(data.Test) != 360 {
		t.Fatalf("%d training and %d test rows, want 1437 and 360", len(data.Train), len(data.Test))
	}
	for _, rows := range [][]Row{data.Train, data.Test} {
		var seen [Classes]int
		for _, row := range rows {
			seen[row.Label]++
		}
		for digit, count := range seen {
			if count < len(rows)/20 {
				t.Errorf("digit %d is in %d of %d rows only", digit, count, len(rows))
			}
		}
	}
}

// TestGradient holds backward to the slope of the loss, weight by weight.
func TestGradient(t *testing.T) {
	data, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	n := newNetwork(8, 3)
	row := &data.Train[5]
	gradient := make([]float32, len(n.params))
	n.forward(row)
	n.backward(row, gradient)
	const step = 1.0 / 256
	for i, p := range n.params {
		n.params[i] = p + step
		_, above := n.forward(row)
		n.params[i] = p - step
		_, below := n.forward(row)
		n.params[i] = p
		slope := (above - below) / (2 * step)
		if math.Abs(slope-float64(gradient[i])) > 2e-3 {
			t.Errorf("parameter %d: gradient %v, slope of the loss %v", i, gradient[i], slope)
		}
	}
}

// TestRanksAgree trains four ranks that meet in memory: all must end with the weights of Reference.
func TestRanksAgree(t *testing.T) {
	const workers, elements = 4, 256
	config := small(workers)
	var want Epoch
	rows := 0
	err := Reference(t.Context(), config, elements, func(e Epoch) error { want, rows = e, rows+e.Rows; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if rows != 3*1437 {
		t.Errorf("the reference trained on %d rows, want %d", rows, 3*1437)
	}
	meeting := newMeeting(workers, elements)
	var last [workers]Epoch
	var running sync.WaitGroup
	for rank := range workers {
		running.Go(func() {
			c := config
			c.Rank = rank
			err := Run(t.Context(), c, meeting.reducer(rank), func(e Epoch) error { last[rank] = e; return nil })
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	running.Wait()
	for rank, e := range last {
		if e.Weights != want.Weights {
			t.Errorf("rank %d ends with weights %s, the reference with %s", rank, e.Weights, want.Weights)
		}
	}
}

// meeting reduces the data of ranks that run as goroutines.
type meeting struct {
	mu       sync.Mutex
	all      *sync.Cond
	elements int
	data     [][]float32
	here     int
	sum      []float32
	round    int
}

func newMeeting(workers, elements int) *meeting {
	m := &meeting{elements: elements, data: make([][]float32, workers)}
	m.all = sync.NewCond(&m.mu)
	return m
}

func (m *meeting) reducer(rank int) Reducer {
	return func(_ context.Context, data []float32) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.data[rank] = data
		m.here++
		if m.here == len(m.data) {
			sum, err := reference.SumFloat32(m.data, m.elements)
			if err != nil {
				return err
			}
			m.sum, m.here, m.round = sum, 0, m.round+1
			m.all.Broadcast()
		} else {
			for round := m.round; m.round == round; {
				m.all.Wait()
			}
		}
		copy(data, m.sum)
		return nil
	}
}

func TestReferenceIsDeterministic(t *testing.T) {
	var hashes [2]string
	for i := range hashes {
		if err := Reference(t.Context(), small(3), 64, func(e Epoch) error { hashes[i] = e.Weights; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if hashes[0] != hashes[1] {
		t.Errorf("two runs end with weights %s and %s", hashes[0], hashes[1])
	}
}

// TestDefaultLearns runs the demo's own configuration.
func TestDefaultLearns(t *testing.T) {
	config := Default(4)
	if n := config.Parameters(); n != 150010 {
		t.Errorf("%d parameters, want 150010", n)
	}
	var last Epoch
	err := Reference(t.Context(), config, 256, func(e Epoch) error {
		last = e
		t.Logf("epoch %d: loss %.4f, train %.2f%%, test %.2f%%", e.Epoch, e.Loss/float64(e.Rows),
			100*float64(e.Correct)/float64(e.Rows), 100*float64(e.TestCorrect)/float64(e.TestRows))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if accuracy := float64(last.TestCorrect) / float64(last.TestRows); accuracy < 0.95 {
		t.Errorf("test accuracy %.3f, want at least 0.95", accuracy)
	}
}

func TestRunStopsWithTheReducer(t *testing.T) {
	broken := errors.New("broken")
	err := Run(t.Context(), small(1), func(context.Context, []float32) error { return broken }, func(Epoch) error { return nil })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestConfigRefused(t *testing.T) {
	for _, c := range []Config{
		{},
		{Workers: 4, Rank: 4, Hidden: 1, Epochs: 1, Batch: 4},
		{Workers: 1, Hidden: 0, Epochs: 1, Batch: 4},
		{Workers: 1, Hidden: 1, Epochs: 0, Batch: 4},
		{Workers: 4, Hidden: 1, Epochs: 1, Batch: 3},
	} {
		if err := c.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: got %v, want %v", c, err, ErrConfig)
		}
	}
}
