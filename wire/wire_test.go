package wire

import "testing"

func TestRingSize(t *testing.T) {
	for _, c := range []struct {
		window int
		ring   uint32
	}{{1, 4}, {2, 8}, {3, 8}, {4, 16}, {31, 64}, {32, 128}, {63, 128}, {64, 256}, {127, 256}, {128, 512}} {
		if got := RingSize(c.window); got != c.ring || int(got) < 2*c.window+2 {
			t.Errorf("RingSize(%d) = %d, want %d", c.window, got, c.ring)
		}
	}
}

func TestSeqBeforeWraps(t *testing.T) {
	for _, c := range []struct {
		a, b   uint32
		before bool
	}{{0, 1, true}, {1, 0, false}, {7, 7, false}, {0xffffffff, 0, true}, {0, 0xffffffff, false}, {0xfffffff0, 0x10, true}} {
		if got := SeqBefore(c.a, c.b); got != c.before {
			t.Errorf("SeqBefore(%#x, %#x) = %v", c.a, c.b, got)
		}
	}
}

func TestFullBitmap(t *testing.T) {
	for n, want := range map[int]uint64{1: 1, 2: 3, 8: 0xff, 63: 1<<63 - 1, 64: 1<<64 - 1} {
		if got := FullBitmap(n); got != want {
			t.Errorf("FullBitmap(%d) = %#x, want %#x", n, got, want)
		}
	}
}

func TestHomePort(t *testing.T) {
	for _, c := range []struct {
		seq   uint32
		ports uint16
		want  uint16
	}{{0, 1, 0}, {1 << 20, 1, 0}, {63, 4, 0}, {64, 4, 1}, {255, 4, 3}, {256, 4, 0}} {
		if got := HomePort(c.seq, c.ports); got != c.want {
			t.Errorf("HomePort(%d, %d) = %d, want %d", c.seq, c.ports, got, c.want)
		}
	}
}
