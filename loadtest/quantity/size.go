package quantity

import "fmt"

// A Size is a number of bytes: "40MB", "4kB", "1MiB", "128" (bytes).
type Size int64

var sizeUnits = []unit{
	{"B", 1}, {"", 1},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
}

// ParseSize reads a size, which is whole and at least one byte.
func ParseSize(text string) (Size, error) {
	number, suffix, err := split(text)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w (want one like 40MB, 4kB or 1MiB)", text, err)
	}
	bytes, err := scaled(number, suffix, sizeUnits)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", text, err)
	}
	if bytes == 0 {
		return 0, fmt.Errorf("size %q: %w: at least one byte", text, ErrSyntax)
	}
	return Size(bytes), nil
}

// Set is ParseSize for package flag.
func (s *Size) Set(text string) (err error) {
	parsed, err := ParseSize(text)
	if err == nil {
		*s = parsed
	}
	return err
}

// String is the size with the largest unit that leaves it whole.
func (s *Size) String() string { return format(int64(*s), sizeUnits) }
