package worker

import (
	"math"
	"slices"
	"testing"
	"time"

	"spillway/wire"
)

// TestQuorumOverSockets: one of three ranks is late by far more than the deadline. The others do not wait for it, all of them get the same
// bits, and what the sums lack is handed back to the late one.
func TestQuorumOverSockets(t *testing.T) {
	l := newQuorumLoopback(t, 3, 0.02, Policy{Quorum: 2, After: 20 * time.Millisecond, MaxLag: 100})
	workers := l.join(t, 3)
	const n = 64 * 100
	input := func(rank int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rank+1) * (1 + float32(i))
		}
		return x
	}
	gate := make(chan struct{})
	sums, residuals := make([][]float32, 3), make([][]float32, 3)
	ints, intResiduals := make([][]int32, 3), make([][]int32, 3)
	outcomes, intOutcomes := make([]Outcome, 3), make([]Outcome, 3)
	errs := each(workers, func(rank int, w *Worker) (err error) {
		if rank == 2 {
			<-gate
		}
		sums[rank], residuals[rank] = input(rank), make([]float32, n)
		if outcomes[rank], err = w.AllReduceWith(t.Context(), sums[rank], RescaleToMean(), WithResidual(residuals[rank])); err != nil {
			return err
		}
		if rank == 0 {
			close(gate)
		}
		ints[rank], intResiduals[rank] = make([]int32, 200), make([]int32, 200)
		for i := range ints[rank] {
			ints[rank][i] = int32(i) << (8 * rank)
		}
		intOutcomes[rank], err = w.AllReduceInt32With(t.Context(), ints[rank], wire.Sum, WithResidualInt32(intResiduals[rank]))
		return err
	})
	for rank, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	if o := outcomes[0]; !o.Partial || o.Contributors != 3 || o.Missed != 0 || !slices.Equal(o.Spans, []Span{{First: 0, Last: n, Contributors: 3}}) {
		t.Errorf("rank 0: %+v", o)
	}
	if o := outcomes[2]; o.Missed != n {
		t.Errorf("rank 2: %+v", o)
	}
	for i := range n {
		// (1 + 2) * 3/2, whose scaled integers are exact to about 2^-12 here.
		if want := 4.5 * (1 + float64(i)); math.Abs(float64(sums[0][i])-want) > 0.01 {
			t.Fatalf("element %d: %v, want %v", i, sums[0][i], want)
		}
	}
	for rank := range workers {
		if !slices.Equal(sums[rank], sums[0]) {
			t.Errorf("rank %d has another sum than rank 0", rank)
		}
		if want := make([]float32, n); rank < 2 && !slices.Equal(residuals[rank], want) {
			t.Errorf("rank %d is handed back what it contributed", rank)
		}
		for i := range ints[rank] {
			total := int32(0)
			for r := range workers {
				total += int32(i)<<(8*r) - intResiduals[r][i]
			}
			if ints[rank][i] != total {
				t.Fatalf("rank %d, element %d: %d, contributed were %d", rank, i, ints[rank][i], total)
			}
		}
	}
	if !slices.Equal(residuals[2], input(2)) {
		t.Error("rank 2 is not handed back its contribution")
	}
}

// TestOutcomeOfAJobThatWaits: everybody is in everything, and nothing is left over.
func TestOutcomeOfAJobThatWaits(t *testing.T) {
	workers := newLoopback(t, 2, 0).join(t, 2)
	errs := each(workers, func(rank int, w *Worker) error {
		x, residual := []float32{1, 2, 3}, []float32{9, 9, 9}
		h, err := w.AllReduceAsyncWith(x, WithResidual(residual), RescaleToMean())
		if err != nil {
			return err
		}
		if err := h.Wait(t.Context()); err != nil {
			return err
		}
		if o := h.Outcome(); o.Partial || o.Missed != 0 || o.Contributors != 3 || !slices.Equal(o.Spans, []Span{{First: 0, Last: 3, Contributors: 3}}) || !slices.Equal(residual, []float32{0, 0, 0}) || !slices.Equal(x, []float32{2, 4, 6}) {
			t.Errorf("rank %d: %+v, residual %v, sum %v", rank, o, residual, x)
		}
		if _, err := w.AllReduceWith(t.Context(), x, WithResidual(residual[:2])); err == nil {
			t.Error("a residual that is too short was taken")
		}
		return nil
	})
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}
