package output

import (
	"time"

	v1 "spillway/appliance/api/spillway/v1"
	"spillway/appliance/stragglers"
)

// Late is a bound on how late a part of a worker's contributions were, for people: <8ms; empty when nothing was measured.
func Late(l *v1.Lateness, part float64) string {
	bound, more := stragglers.Quantile(l, part)
	switch {
	case bound == 0:
		return ""
	case more:
		return ">" + Duration(bound)
	}
	return "<" + Duration(bound.Round(time.Microsecond))
}
