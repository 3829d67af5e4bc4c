package output_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"spillway/ctl/output"
)

func TestForPeople(t *testing.T) {
	for want, got := range map[string]string{
		"850µs": output.Duration(850 * time.Microsecond), "12ms": output.Duration(12 * time.Millisecond), "4.2s": output.Duration(4200 * time.Millisecond),
		"42s": output.Duration(42 * time.Second), "3m05s": output.Duration(185 * time.Second), "2h05m": output.Duration(125 * time.Minute),
		"10m": output.Duration(10 * time.Minute), "3d04h": output.Duration(76 * time.Hour), "-1s": output.Duration(-time.Second), "0µs": output.Duration(0),
		"512 B": output.Bytes(512), "1.5 KiB": output.Bytes(1536), "64 MiB": output.Bytes(64 << 20), "16384 PiB": output.Bytes(math.MaxUint64),
		"999": output.Count(999), "12.3k": output.Count(12_345), "4.5M": output.Count(4_500_000), "2000T": output.Count(2e15), "0": output.Count(0),
		"12.5%": output.Share(0.125), "100%": output.Share(1),
		"0-3,5": output.Ranks([]uint32{5, 3, 2, 1, 0}), "1,2": output.Ranks([]uint32{2, 1}), "": output.Ranks(nil), "7": output.Ranks([]uint32{7}),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRows(t *testing.T) {
	rows := output.NewRows("NAME", ">N", "TEXT")
	rows.Add("a", 1, "")
	rows.Add("größer", 1000, "x")
	rows.Add("short")
	var b strings.Builder
	if err := rows.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "NAME       N  TEXT\na          1  -\ngrößer  1000  x\nshort      -  -\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestWrap(t *testing.T) {
	got := output.Wrap("error: a text that is too long for its line, and aVeryLongWordThatCannotBeBroken ends it", 30, "    ")
	want := "error: a text that is too long\n    for its line, and\n    aVeryLongWordThatCannotBeBroken\n    ends it"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
