package quantity

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// ErrSyntax is wrapped by the errors of all parsers.
var ErrSyntax = errors.New("not understood")

// longest bounds a quantity's text, so that its number stays cheap to compute with.
const longest = 32

// A unit is a suffix and what it multiplies by.
type unit struct {
	suffix string
	factor int64
}

// split separates a quantity into its exact decimal number and its suffix. A
// number is digits with at most one point between them: no sign, exponent or space.
func split(text string) (*big.Rat, string, error) {
	if len(text) > longest {
		return nil, "", fmt.Errorf("%w: longer than %d characters", ErrSyntax, longest)
	}
	end := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(text)
	}
	digits := text[:end]
	whole, fraction, point := strings.Cut(digits, ".")
	if whole == "" || point && fraction == "" || strings.Contains(fraction, ".") {
		return nil, "", fmt.Errorf("%w: no number at its start", ErrSyntax)
	}
	number, ok := new(big.Rat).SetString(digits)
	if !ok {
		return nil, "", fmt.Errorf("%w: bad number %q", ErrSyntax, digits)
	}
	return number, text[end:], nil
}

// scaled multiplies a number by its suffix's factor; the result must be whole and fit an int64.
func scaled(number *big.Rat, suffix string, units []unit) (int64, error) {
	for _, u := range units {
		if u.suffix != suffix {
			continue
		}
		product := new(big.Rat).Mul(number, new(big.Rat).SetInt64(u.factor))
		if !product.IsInt() {
			return 0, fmt.Errorf("%w: not a whole number", ErrSyntax)
		}
		if !product.Num().IsInt64() {
			return 0, fmt.Errorf("%w: too large", ErrSyntax)
		}
		return product.Num().Int64(), nil
	}
	known := make([]string, 0, len(units))
	for _, u := range units {
		if u.suffix != "" {
			known = append(known, u.suffix)
		}
	}
	return 0, fmt.Errorf("%w: unit %q is none of %s", ErrSyntax, suffix, strings.Join(known, ", "))
}

// format writes a value with the largest unit that leaves it whole.
func format(value int64, units []unit) string {
	best := units[0]
	for _, u := range units {
		if value%u.factor == 0 && value != 0 && u.factor > best.factor {
			best = u
		}
	}
	return fmt.Sprintf("%d%s", value/best.factor, best.suffix)
}
