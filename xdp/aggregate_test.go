package xdp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"spillway/wire"
)

// TestSum takes one chunk of every length class through claim, merge and
// publish, and compares the RESULT with a sum made here.
func TestSum(t *testing.T) {
	for _, e := range []int{32, 64, 96, 128, 256, 288, 512, 832} {
		for _, elems := range []int{1, 2, 31, 32, 33, e - 1, e} {
			if elems > e {
				continue
			}
			a := load(t, testJob(3, e))
			r := rand.New(rand.NewPCG(uint64(e), uint64(elems)))
			want := make([]int32, elems)
			for rank := range 3 {
				x := make([]int32, elems)
				for i := range x {
					x[i] = r.Int32N(1<<29) - 1<<28
					want[i] += x[i]
				}
				h, x := data(rank, 5, x...)
				if rank < 2 {
					send(t, a, frame(rank, h, x), Drop)
					continue
				}
				got := send(t, a, frame(rank, h, x), Transmit)
				if !slices.Equal(got.elements, want) {
					t.Fatalf("E %d, elems %d: got %v, want %v", e, elems, got.elements, want)
				}
				wantHeader := h
				wantHeader.Type, wantHeader.Bitmap, wantHeader.Priority = wire.Result, 7, 0
				if got.header != wantHeader {
					t.Errorf("header %+v, want %+v", got.header, wantHeader)
				}
			}
			if err := a.RemoveJob(7); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestResultGoesToTheGroup(t *testing.T) {
	a := load(t, testJob(1, 32))
	h, x := data(0, 0, 1, 2, 3)
	got := send(t, a, frame(0, h, x), Transmit)
	if got.dst.Addr() != groupAddr || got.dst.Port() != workerPort || got.src.Addr() != homeAddr || got.src.Port() != wire.BasePort {
		t.Errorf("from %v to %v", got.src, got.dst)
	}
	if got.dstMAC.String() != "01:00:5e:4d:00:01" || got.srcMAC.String() != homeMAC.String() {
		t.Errorf("from %v to %v", got.srcMAC, got.dstMAC)
	}
	if got.tos != 2 {
		t.Errorf("TOS %#x, want ECT(0)", got.tos)
	}
}

// TestOps compares each operation with a plain loop over values that include
// the ends of the range, where SUM saturates and says so.
func TestOps(t *testing.T) {
	edges := []int32{math.MinInt32, math.MinInt32 + 1, -1 << 30, -2, -1, 0, 1, 2, 1 << 30, math.MaxInt32 - 1, math.MaxInt32}
	var x, y []int32
	for _, p := range edges {
		for _, q := range edges {
			x, y = append(x, p), append(y, q)
		}
	}
	for _, op := range []wire.Op{wire.Sum, wire.Max, wire.Min} {
		a := load(t, testJob(2, 128))
		h, _ := data(0, 0, x...)
		h.Op = op
		send(t, a, frame(0, h, x), Drop)
		h.Bitmap = 2
		got := send(t, a, frame(1, h, y), Transmit)
		saturated := false
		for i := range x {
			want := int64(x[i])
			switch op {
			case wire.Sum:
				want += int64(y[i])
				if want > math.MaxInt32 || want < math.MinInt32 {
					saturated = true
					want = max(math.MinInt32, min(math.MaxInt32, want))
				}
			case wire.Max:
				want = max(want, int64(y[i]))
			case wire.Min:
				want = min(want, int64(y[i]))
			}
			if int64(got.elements[i]) != want {
				t.Errorf("%v(%d, %d) = %d, want %d", op, x[i], y[i], got.elements[i], want)
			}
		}
		if flagged := got.header.Flags&wire.Saturated != 0; flagged != saturated {
			t.Errorf("%v: SATURATED is %v, want %v", op, flagged, saturated)
		}
		if c := counters(t, a)["saturated"]; (c != 0) != saturated {
			t.Errorf("%v: counter saturated is %d", op, c)
		}
		if err := a.RemoveJob(7); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoOverflowAtTheEnds: sums that reach the ends of the range exactly are no overflow.
func TestNoOverflowAtTheEnds(t *testing.T) {
	a := load(t, testJob(2, 32))
	h, x := data(0, 0, math.MaxInt32, math.MinInt32, -1, math.MaxInt32-1)
	send(t, a, frame(0, h, x), Drop)
	h, x = data(1, 0, 0, 0, math.MinInt32+1, 1)
	got := send(t, a, frame(1, h, x), Transmit)
	if want := []int32{math.MaxInt32, math.MinInt32, math.MinInt32, math.MaxInt32}; !slices.Equal(got.elements, want) {
		t.Errorf("got %v, want %v", got.elements, want)
	}
	if got.header.Flags != 0 {
		t.Errorf("flags %#x", got.header.Flags)
	}
}

// TestSaturation compares many sums of large and small values with a saturating
// sum made here in the same order. Values outside the bound of honest
// contributions come early, late and not at all.
func TestSaturation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const n, elems = 5, 70
	a := load(t, testJob(n, 96))
	for seq := range uint32(200) {
		want := make([]int64, elems)
		saturated := false
		large := r.IntN(n + 1) // this rank's are
		for k, rank := range r.Perm(n) {
			h, x := data(rank, seq, make([]int32, elems)...)
			for i := range x {
				x[i] = int32(r.Uint32()) >> 3
				if rank == large && r.IntN(20) == 0 {
					x[i] = int32(r.Uint32())
				}
				want[i] += int64(x[i])
				if clamped := max(math.MinInt32, min(math.MaxInt32, want[i])); clamped != want[i] {
					want[i], saturated = clamped, true
				}
			}
			if k < n-1 {
				send(t, a, frame(rank, h, x), Drop)
				continue
			}
			got := send(t, a, frame(rank, h, x), Transmit)
			for i := range want {
				if int64(got.elements[i]) != want[i] {
					t.Fatalf("seq %d element %d: got %d, want %d", seq, i, got.elements[i], want[i])
				}
			}
			if (got.header.Flags&wire.Saturated != 0) != saturated {
				t.Fatalf("seq %d: flags %#x, saturated %v", seq, got.header.Flags, saturated)
			}
		}
	}
}
