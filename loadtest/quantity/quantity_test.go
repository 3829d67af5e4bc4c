package quantity

import (
	"errors"
	"math"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"1": 1, "128": 128, "40MB": 40_000_000, "4kB": 4000, "1MiB": 1 << 20, "160MB": 160_000_000,
		"1.5kB": 1500, "0.001kB": 1, "2GiB": 2 << 30, "7B": 7, "3KiB": 3072, "1GB": 1e9,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "0", "0MB", "MB", "-4kB", "+4kB", "4 kB", "4KB", "4mb", "1.0001kB", "1e3", ".5kB", "5.kB", "1.2.3kB", "0x10",
		"99999999999GB", "1kBps", "NaN", "Inf", "1,5kB", "１MB", "00000000000000000000000000000000000001",
	} {
		if got, err := ParseSize(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"500mbit": 500_000_000, "1gbit": 1_000_000_000, "unshaped": 0, "0": 0, "0mbit": 0, "2.5gbit": 2_500_000_000, "64kbit": 64_000, "9bit": 9,
	} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "500", "500Mbit", "1gbps", "Unshaped", "-1mbit", "0.5bit", "99999999999gbit", "500mbit/s"} {
		if got, err := ParseRate(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestParseProbability(t *testing.T) {
	for text, want := range map[string]Probability{"0": 0, "0%": 0, "0.1%": 0.001, "1%": 0.01, "100%": 1, "12.5%": 0.125} {
		if got, err := ParseProbability(text); err != nil || got != want {
			t.Errorf("%q: %g, %v, want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "0.1", "1", "100.1%", "-1%", "1%%", "1 %", "NaN%", "1e-3%"} {
		if got, err := ParseProbability(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %g, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"40MB", "4kB", "1MiB", "500mbit", "2.5gbit", "unshaped", "0.1%", "100%", "0", "1.", "9999999999999999999GB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if size, err := ParseSize(text); err == nil {
			if again, err := ParseSize(size.String()); err != nil || again != size || size < 1 {
				t.Errorf("%q is %d, which writes as %q and reads as %d, %v", text, size, size.String(), again, err)
			}
		} else if size != 0 || !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %d with %v", text, size, err)
		}
		if rate, err := ParseRate(text); err == nil {
			if again, err := ParseRate(rate.String()); err != nil || again != rate {
				t.Errorf("%q is %d, which writes as %q and reads as %d, %v", text, rate, rate.String(), again, err)
			}
		} else if rate != 0 || !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %d with %v", text, rate, err)
		}
		if p, err := ParseProbability(text); err == nil {
			if !(p >= 0 && p <= 1) {
				t.Errorf("%q is %g", text, p)
			}
			// Percent and back are two roundings. A tiny probability writes longer than the parser reads.
			if again, err := ParseProbability(p.String()); err == nil && math.Abs(float64(again-p)) > 1e-15 {
				t.Errorf("%q is %g, which writes as %q and reads as %g", text, p, p.String(), again)
			}
		} else if p != 0 || !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %g with %v", text, p, err)
		}
	})
}
