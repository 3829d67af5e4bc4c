package quantity

import (
	"fmt"
	"math/big"
	"strconv"
)

// A Probability is 0 to 1, written as a percentage: "0.1%", "1%"; "0" alone is none.
type Probability float64

// ParseProbability reads a percentage from 0% to 100%.
func ParseProbability(text string) (Probability, error) {
	number, suffix, err := split(text)
	if err != nil {
		return 0, fmt.Errorf("probability %q: %w (want one like 0.1%%)", text, err)
	}
	if suffix != "%" && (suffix != "" || number.Sign() != 0) {
		return 0, fmt.Errorf("probability %q: %w: say it in percent, like 0.1%%", text, ErrSyntax)
	}
	share := new(big.Rat).Quo(number, big.NewRat(100, 1))
	if share.Cmp(big.NewRat(1, 1)) > 0 {
		return 0, fmt.Errorf("probability %q: %w: more than 100%%", text, ErrSyntax)
	}
	p, _ := share.Float64() // to the nearest: a probability needs no more
	return Probability(p), nil
}

// Set is ParseProbability for package flag.
func (p *Probability) Set(text string) (err error) {
	parsed, err := ParseProbability(text)
	if err == nil {
		*p = parsed
	}
	return err
}

// String is the probability in percent.
func (p *Probability) String() string {
	return strconv.FormatFloat(float64(*p)*100, 'f', -1, 64) + "%"
}
