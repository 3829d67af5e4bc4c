package p4info

import (
	"slices"
	"strings"
)

// The ends of the names of a parameter that is two in the program.
const (
	lowHalf  = "_lo"
	highHalf = "_hi"
)

func (a *Action) param(name string) (Param, bool) {
	n := slices.IndexFunc(a.Params, func(p Param) bool { return p.Name == name })
	if n < 0 {
		return Param{}, false
	}
	return a.Params[n], true
}

// split turns arguments whose parameter is two in this action into two.
func split(args []Arg, action *Action) []Arg {
	var out []Arg
	for _, a := range args {
		_, whole := action.param(a.Param)
		low, hasLow := action.param(a.Param + lowHalf)
		_, hasHigh := action.param(a.Param + highHalf)
		if whole || !hasLow || !hasHigh || low.Width >= 64 {
			out = append(out, a)
			continue
		}
		out = append(out, Arg{a.Param + lowHalf, a.Value & ones(low.Width)}, Arg{a.Param + highHalf, a.Value >> low.Width})
	}
	return out
}

// join is the way back.
func join(args []Arg, action *Action) []Arg {
	var out []Arg
	for _, a := range args {
		name, isLow := strings.CutSuffix(a.Param, lowHalf)
		high := slices.IndexFunc(args, func(other Arg) bool { return other.Param == name+highHalf })
		if low, ok := action.param(a.Param); isLow && ok && high >= 0 {
			out = append(out, Arg{name, a.Value | args[high].Value<<low.Width})
			continue
		}
		name, isHigh := strings.CutSuffix(a.Param, highHalf)
		if isHigh && slices.ContainsFunc(args, func(other Arg) bool { return other.Param == name+lowHalf }) {
			continue // its low half brought it along
		}
		out = append(out, a)
	}
	return out
}
