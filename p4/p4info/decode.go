package p4info

import (
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Decode is the entry that a P4Runtime message means. It wants what the specification wants of an entry ("Match Format",
// "Action Specification"), except that keys and the action may be missing where absent means "don't care" or "all"; see
// CheckKey. Errors are *FieldError; those about bytestrings wrap ErrBytestring.
func (i *Info) Decode(m *p4v1.TableEntry) (Entry, error) {
	table, ok := i.tables.byID[m.GetTableId()]
	if !ok {
		return Entry{}, &FieldError{"", "table_id", fmt.Errorf("%w: table with id %#x", ErrNotInProgram, m.GetTableId())}
	}
	e := Entry{Table: table.Name, Priority: m.GetPriority(), Default: m.GetIsDefaultAction()}
	fields, err := table.fields(m.GetMatch())
	if err != nil {
		return Entry{}, err
	}
	for _, key := range table.Keys {
		field, ok := fields[key.ID]
		if !ok {
			continue
		}
		match, err := key.decode(field)
		if err != nil {
			return Entry{}, &FieldError{table.Name, key.Name, err}
		}
		e.Match = append(e.Match, match)
	}
	if m.GetAction() != nil {
		if e.Do, err = table.decodeCall(m.GetAction()); err != nil {
			return Entry{}, err
		}
	}
	return e, nil
}

// fields are the elements of a match by key id: each of the table's keys at most once.
func (t *Table) fields(match []*p4v1.FieldMatch) (map[uint32]*p4v1.FieldMatch, error) {
	fields := make(map[uint32]*p4v1.FieldMatch, len(match))
	for _, field := range match {
		n := slices.IndexFunc(t.Keys, func(k Key) bool { return k.ID == field.GetFieldId() })
		if n < 0 {
			return nil, &FieldError{t.Name, "match", fmt.Errorf("%w: key with id %d", ErrNotInProgram, field.GetFieldId())}
		}
		if _, twice := fields[field.GetFieldId()]; twice {
			return nil, &FieldError{t.Name, t.Keys[n].Name, errors.New("the key is given twice")}
		}
		fields[field.GetFieldId()] = field
	}
	return fields, nil
}

// CheckKey wants a match that names one entry: all exact keys, and a priority where, and only where, the table has them.
func (t *Table) CheckKey(e Entry) error {
	for _, key := range t.Keys {
		if key.Match == configv1.MatchField_EXACT && !slices.ContainsFunc(e.Match, func(m Match) bool { return m.Key == key.Name }) {
			return &FieldError{t.Name, key.Name, errors.New("an exact key cannot be left out")}
		}
	}
	switch {
	case t.Prioritised() && e.Priority <= 0:
		return &FieldError{t.Name, "priority", fmt.Errorf("%d is not more than 0, in a table with a ternary key", e.Priority)}
	case !t.Prioritised() && e.Priority != 0:
		return &FieldError{t.Name, "priority", fmt.Errorf("%d is not 0, in a table without a ternary key", e.Priority)}
	}
	return nil
}

func (k Key) decode(field *p4v1.FieldMatch) (Match, error) {
	m := Match{Key: k.Name, Kind: k.Match}
	var err error
	wrongKind := func() error { return fmt.Errorf("the key is %s, the match %T", k.Match, field.GetFieldMatchType()) }
	switch k.Match {
	case configv1.MatchField_EXACT:
		if field.GetExact() == nil {
			return m, wrongKind()
		}
		m.Value, err = Value(field.GetExact().GetValue(), k.Width)
	case configv1.MatchField_LPM:
		if field.GetLpm() == nil {
			return m, wrongKind()
		}
		if m.Value, err = Value(field.GetLpm().GetValue(), k.Width); err != nil {
			return m, err
		}
		m.Prefix = int(field.GetLpm().GetPrefixLen())
		switch {
		case m.Prefix == 0:
			err = errors.New("prefix length 0: a don't-care match must be left out")
		case m.Prefix < 0 || m.Prefix > k.Width:
			err = fmt.Errorf("prefix length %d of %d bits", m.Prefix, k.Width)
		case m.Value&ones(k.Width-m.Prefix) != 0:
			err = fmt.Errorf("%#x has bits beyond its prefix of %d", m.Value, m.Prefix)
		}
	case configv1.MatchField_TERNARY:
		if field.GetTernary() == nil {
			return m, wrongKind()
		}
		if m.Value, err = Value(field.GetTernary().GetValue(), k.Width); err != nil {
			return m, err
		}
		if m.Mask, err = Value(field.GetTernary().GetMask(), k.Width); err != nil {
			return m, fmt.Errorf("mask: %w", err)
		}
		switch {
		case m.Mask == 0:
			err = errors.New("mask 0: a don't-care match must be left out")
		case m.Value&^m.Mask != 0:
			err = fmt.Errorf("%#x has bits outside its mask %#x", m.Value, m.Mask)
		}
	default:
		err = fmt.Errorf("keys of kind %s are not known here", k.Match)
	}
	return m, err
}

// ErrScope is wrapped when an action is used as default that may not be, or in an entry where it is only for the default:
// P4Runtime's status for it is PERMISSION_DENIED.
var ErrScope = errors.New("scope of the action")

func (t *Table) decodeCall(m *p4v1.TableAction) (Call, error) {
	fail := func(field string, err error) (Call, error) { return Call{}, &FieldError{t.Name, field, err} }
	action := m.GetAction()
	if action == nil {
		return fail("action", fmt.Errorf("%T is not for this table: it has plain actions", m.GetType()))
	}
	n := slices.IndexFunc(t.Actions, func(r ActionRef) bool { return r.ID == action.GetActionId() })
	if n < 0 {
		return fail("action", fmt.Errorf("%w: action with id %#x of this table", ErrNotInProgram, action.GetActionId()))
	}
	ref := t.Actions[n]
	call := Call{Action: ref.Name}
	values := make(map[uint32][]byte, len(action.GetParams()))
	for _, p := range action.GetParams() {
		if !slices.ContainsFunc(ref.Params, func(known Param) bool { return known.ID == p.GetParamId() }) {
			return fail("action", fmt.Errorf("%w: parameter with id %d of %s", ErrNotInProgram, p.GetParamId(), ref.Name))
		}
		if _, twice := values[p.GetParamId()]; twice {
			return fail("action", fmt.Errorf("parameter with id %d of %s is given twice", p.GetParamId(), ref.Name))
		}
		values[p.GetParamId()] = p.GetValue()
	}
	for _, p := range ref.Params {
		b, ok := values[p.ID]
		if !ok {
			return fail(p.Name, fmt.Errorf("%s needs this parameter", ref.Name))
		}
		v, err := Value(b, p.Width)
		if err != nil {
			return fail(p.Name, err)
		}
		call.Args = append(call.Args, Arg{p.Name, v})
	}
	call.Args = join(call.Args, ref.Action)
	return call, nil
}

// CheckScope wants an action that may be the default, or one of an entry.
func (t *Table) CheckScope(action string, asDefault bool) error {
	for _, ref := range t.Actions {
		switch {
		case ref.Name != action:
		case asDefault && ref.Scope == configv1.ActionRef_TABLE_ONLY:
			return &FieldError{t.Name, "action", fmt.Errorf("%w: %s is not for the default entry", ErrScope, action)}
		case !asDefault && ref.Scope == configv1.ActionRef_DEFAULT_ONLY:
			return &FieldError{t.Name, "action", fmt.Errorf("%w: %s is for the default entry only", ErrScope, action)}
		}
	}
	return nil
}
