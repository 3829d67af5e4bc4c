package quantity

import "fmt"

// A Rate is that of a link in bit/s: "500mbit", "1gbit", or "unshaped", which is 0.
type Rate uint64

// unshaped is the word for a link without a limit.
const unshaped = "unshaped"

var rateUnits = []unit{{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}

// ParseRate reads a rate in the units of tc(8). A number needs its unit: bare
// numbers have been read as bits and as bytes too often.
func ParseRate(text string) (Rate, error) {
	if text == unshaped {
		return 0, nil
	}
	number, suffix, err := split(text)
	if err != nil {
		return 0, fmt.Errorf("rate %q: %w (want one like 500mbit or 1gbit, or %q)", text, err, unshaped)
	}
	if number.Sign() == 0 {
		return 0, nil
	}
	rate, err := scaled(number, suffix, rateUnits)
	if err != nil {
		return 0, fmt.Errorf("rate %q: %w", text, err)
	}
	return Rate(rate), nil
}

// Set is ParseRate for package flag.
func (r *Rate) Set(text string) (err error) {
	parsed, err := ParseRate(text)
	if err == nil {
		*r = parsed
	}
	return err
}

// String is the rate with the largest unit that leaves it whole.
func (r *Rate) String() string {
	if *r == 0 {
		return unshaped
	}
	return format(int64(*r), rateUnits)
}
