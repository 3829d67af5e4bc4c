package output

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Duration is a time span for people, to two or three digits: 850µs, 4.2s, 3m20s, 10m, 2h05m, 3d04h.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return trimmed(d.Seconds(), 1) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "m", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "m")
	default:
		return two(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
	}
}

// two are two units, or the larger alone when there is nothing of the smaller.
func two(large int, largeUnit string, small int, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%d%s", large, largeUnit)
	}
	return fmt.Sprintf("%d%s%02d%s", large, largeUnit, small, smallUnit)
}

// Span is a duration of the API for people; empty when there is none.
func Span(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return Duration(d.AsDuration())
}

// Since is how long ago a time was; empty when there is none.
func Since(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	return Duration(max(0, now.Sub(t.AsTime())))
}

// Bytes is a size for people: 512 B, 1.5 KiB, 64 MiB.
func Bytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), -1
	for value >= 1024 && unit < 4 {
		value /= 1024
		unit++
	}
	return trimmed(value, 1) + " " + string("KMGTP"[unit]) + "iB"
}

// Count is a number for people: 999, 12.3k, 4.5M.
func Count(n float64) string {
	if math.Abs(n) < 1000 {
		return trimmed(n, 1)
	}
	unit := -1
	for math.Abs(n) >= 1000 && unit < 3 {
		n /= 1000
		unit++
	}
	return trimmed(n, 1) + string("kMGT"[unit])
}

// Share is a part of one in percent.
func Share(part float64) string { return trimmed(part*100, 1) + "%" }

// trimmed is a number with so many decimals, without zeros at its end.
func trimmed(value float64, decimals int) string {
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Ranks are ranks for people: 0-3,5; empty when there are none.
func Ranks(ranks []uint32) string {
	sorted := slices.Sorted(slices.Values(ranks))
	var parts []string
	for i := 0; i < len(sorted); {
		end := i
		for end+1 < len(sorted) && sorted[end+1] == sorted[end]+1 {
			end++
		}
		switch end - i {
		case 0:
			parts = append(parts, fmt.Sprint(sorted[i]))
		case 1:
			parts = append(parts, fmt.Sprint(sorted[i]), fmt.Sprint(sorted[end]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[i], sorted[end]))
		}
		i = end + 1
	}
	return strings.Join(parts, ",")
}

// Wrap breaks a text between words into lines of at most so many columns. All but the first begin with the indent.
func Wrap(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = utf8.RuneCountInString(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
