package p4info

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Entry is a table entry, or a table's default one, in names and numbers.
type Entry struct {
	Table string
	// Match has one element for each key that is not "don't care".
	Match []Match
	// Priority is more than 0 for tables with a ternary key, where the highest wins, and 0 for others.
	Priority int32
	// Default makes it the table's default entry, which has no match.
	Default bool
	// Do is the action; without a name it is left out of the message, as for a DELETE or a read.
	Do Call
}

// Match is the value of one key: exact, or with a prefix, or with a mask.
type Match struct {
	Key    string
	Kind   configv1.MatchField_MatchType
	Value  uint64
	Prefix int    // LPM only, bits
	Mask   uint64 // ternary only
}

// Exact is a match on the whole of a key.
func Exact(key string, value uint64) Match {
	return Match{Key: key, Kind: configv1.MatchField_EXACT, Value: value}
}

// LPM is a match on the first bits of a key.
func LPM(key string, value uint64, prefix int) Match {
	return Match{Key: key, Kind: configv1.MatchField_LPM, Value: value, Prefix: prefix}
}

// Ternary is a match on those bits of a key that are 1 in mask.
func Ternary(key string, value, mask uint64) Match {
	return Match{Key: key, Kind: configv1.MatchField_TERNARY, Value: value, Mask: mask}
}

// Call is an action with its arguments.
type Call struct {
	Action string
	Args   []Arg
}

// Arg is the value of a parameter.
type Arg struct {
	Param string
	Value uint64
}

// Arg is the value of a parameter of the call, 0 when it is not there.
func (c Call) Arg(param string) uint64 {
	for _, a := range c.Args {
		if a.Param == param {
			return a.Value
		}
	}
	return 0
}

// FieldError is something wrong with one field of an entry.
type FieldError struct {
	Table string
	// Field is the key or parameter, or "priority", "action" and the like; empty when it is about the whole entry.
	Field string
	Err   error
}

func (e *FieldError) Error() string { return Path(e.Table, e.Field) + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Path is how a field is named in messages: table.field.
func Path(table, field string) string { return strings.Trim(table+"."+field, ".") }

// Encode makes the P4Runtime message of an entry. Every key that is not exact may be left out; every parameter must be
// there. Errors are *FieldError.
func (i *Info) Encode(e Entry) (*p4v1.TableEntry, error) {
	fail := func(field string, err error) (*p4v1.TableEntry, error) { return nil, &FieldError{e.Table, field, err} }
	table, err := i.Table(e.Table)
	if err != nil {
		return fail("", err)
	}
	if e.Default && (len(e.Match) > 0 || e.Priority != 0) {
		return fail("match", fmt.Errorf("the default entry has neither match nor priority"))
	}
	out := &p4v1.TableEntry{TableId: table.ID, Priority: e.Priority, IsDefaultAction: e.Default}
	for _, m := range e.Match {
		if !slices.ContainsFunc(table.Keys, func(k Key) bool { return k.Name == m.Key }) {
			return fail(m.Key, fmt.Errorf("%w: key", ErrNotInProgram))
		}
	}
	for _, key := range table.Keys {
		n := slices.IndexFunc(e.Match, func(m Match) bool { return m.Key == key.Name })
		if n < 0 {
			if key.Match == configv1.MatchField_EXACT && !e.Default {
				return fail(key.Name, fmt.Errorf("an exact key cannot be left out"))
			}
			continue
		}
		field, err := key.encode(e.Match[n])
		if err != nil {
			return fail(key.Name, err)
		}
		out.Match = append(out.Match, field)
	}
	if e.Do.Action != "" {
		action, field, err := table.call(e.Do)
		if err != nil {
			return fail(field, err)
		}
		out.Action = &p4v1.TableAction{Type: &p4v1.TableAction_Action{Action: action}}
	}
	return out, nil
}

func (k Key) encode(m Match) (*p4v1.FieldMatch, error) {
	if m.Kind != k.Match {
		return nil, fmt.Errorf("the key is %s, the match %s", k.Match, m.Kind)
	}
	if !fits(m.Value, k.Width) {
		return nil, fmt.Errorf("%#x does not fit %d bits", m.Value, k.Width)
	}
	out := &p4v1.FieldMatch{FieldId: k.ID}
	switch k.Match {
	case configv1.MatchField_EXACT:
		out.FieldMatchType = &p4v1.FieldMatch_Exact_{Exact: &p4v1.FieldMatch_Exact{Value: Bytes(m.Value)}}
	case configv1.MatchField_LPM:
		if m.Prefix < 1 || m.Prefix > k.Width || m.Value&ones(k.Width-m.Prefix) != 0 {
			return nil, fmt.Errorf("%#x/%d is no prefix of %d bits", m.Value, m.Prefix, k.Width)
		}
		out.FieldMatchType = &p4v1.FieldMatch_Lpm{Lpm: &p4v1.FieldMatch_LPM{Value: Bytes(m.Value), PrefixLen: int32(m.Prefix)}}
	case configv1.MatchField_TERNARY:
		if !fits(m.Mask, k.Width) || m.Mask == 0 || m.Value&^m.Mask != 0 {
			return nil, fmt.Errorf("%#x &&& %#x is no ternary match of %d bits", m.Value, m.Mask, k.Width)
		}
		out.FieldMatchType = &p4v1.FieldMatch_Ternary_{Ternary: &p4v1.FieldMatch_Ternary{Value: Bytes(m.Value), Mask: Bytes(m.Mask)}}
	default:
		return nil, fmt.Errorf("keys of kind %s are not known here", k.Match)
	}
	return out, nil
}

// call makes the message of an action; field says what an error is about.
func (t *Table) call(c Call) (action *p4v1.Action, field string, err error) {
	n := slices.IndexFunc(t.Actions, func(r ActionRef) bool { return r.Name == c.Action })
	if n < 0 {
		return nil, "action", fmt.Errorf("%w: action %q of this table", ErrNotInProgram, c.Action)
	}
	ref := t.Actions[n]
	args := split(c.Args, ref.Action)
	out := &p4v1.Action{ActionId: ref.ID}
	for _, a := range args {
		if !slices.ContainsFunc(ref.Params, func(p Param) bool { return p.Name == a.Param }) {
			return nil, a.Param, fmt.Errorf("%w: parameter of %s", ErrNotInProgram, c.Action)
		}
	}
	for _, p := range ref.Params {
		n := slices.IndexFunc(args, func(a Arg) bool { return a.Param == p.Name })
		if n < 0 {
			return nil, p.Name, fmt.Errorf("%s needs this parameter", c.Action)
		}
		if !fits(args[n].Value, p.Width) {
			return nil, p.Name, fmt.Errorf("%#x does not fit %d bits", args[n].Value, p.Width)
		}
		out.Params = append(out.Params, &p4v1.Action_Param{ParamId: p.ID, Value: Bytes(args[n].Value)})
	}
	return out, "", nil
}
