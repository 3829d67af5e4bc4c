package p4info

import (
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
)

// Info is an index over a P4Info message. It does not change after New and can be used by several goroutines at once.
type Info struct {
	message   *configv1.P4Info
	tables    index[*Table]
	actions   index[*Action]
	counters  index[*Counter]
	direct    index[*DirectCounter]
	registers index[*Register]
}

// Table is a match-action table.
type Table struct {
	ID   uint32
	Name string
	// Keys are in the order of the program.
	Keys []Key
	// Actions are what its entries may do.
	Actions []ActionRef
	// Default is the action of a miss until it is changed, ConstDefault whether it cannot be.
	Default      Call
	ConstDefault bool
	// Const tables have entries that cannot be changed.
	Const bool
	// Size is how many entries it is made for, 0 when the program does not say.
	Size int
	// DirectCounter is the one that counts the hits of each entry, nil without one.
	DirectCounter *DirectCounter
}

// Prioritised tells whether the table's entries have a priority: P4Runtime wants one not 0 exactly for tables with a
// ternary, range or optional key.
func (t *Table) Prioritised() bool {
	return slices.ContainsFunc(t.Keys, func(k Key) bool {
		return k.Match == configv1.MatchField_TERNARY || k.Match == configv1.MatchField_RANGE || k.Match == configv1.MatchField_OPTIONAL
	})
}

// Key is one field of a table's key.
type Key struct {
	ID    uint32
	Name  string
	Width int // bits
	Match configv1.MatchField_MatchType
}

// ActionRef is an action as one of a table's.
type ActionRef struct {
	*Action
	Scope configv1.ActionRef_Scope
}

// Action is an action with its parameters in the order of the program.
type Action struct {
	ID     uint32
	Name   string
	Params []Param
}

// Param is a parameter of an action.
type Param struct {
	ID    uint32
	Name  string
	Width int // bits
}

// Counter is an indexed counter.
type Counter struct {
	ID   uint32
	Name string
	Size int64
	Unit configv1.CounterSpec_Unit
}

// DirectCounter counts the hits of the entries of one table.
type DirectCounter struct {
	ID    uint32
	Name  string
	Table string
	Unit  configv1.CounterSpec_Unit
}

// Register is an array of values that the data plane writes.
type Register struct {
	ID    uint32
	Name  string
	Width int // bits; 0 for one that is no plain bit string
	Size  int64
}

// index finds objects of one kind by name and by id.
type index[T any] struct {
	kind   string
	byName map[string]T
	byID   map[uint32]T
	order  []T
}

func (x *index[T]) add(preamble *configv1.Preamble, object T) error {
	if x.byName == nil {
		x.byName, x.byID = map[string]T{}, map[uint32]T{}
	}
	if preamble.GetId() == 0 || preamble.GetName() == "" {
		return fmt.Errorf("a %s with id %d and name %q", x.kind, preamble.GetId(), preamble.GetName())
	}
	if _, ok := x.byID[preamble.GetId()]; ok {
		return fmt.Errorf("two %ss with id %d", x.kind, preamble.GetId())
	}
	if _, ok := x.byName[preamble.GetName()]; ok {
		return fmt.Errorf("two %ss with name %s", x.kind, preamble.GetName())
	}
	x.byID[preamble.GetId()], x.byName[preamble.GetName()] = object, object
	x.order = append(x.order, object)
	return nil
}

func (x *index[T]) named(name string) (T, error) {
	object, ok := x.byName[name]
	if !ok {
		return object, fmt.Errorf("%w: %s %q", ErrNotInProgram, x.kind, name)
	}
	return object, nil
}

// ErrNotInProgram is wrapped by errors about names that the P4Info does not have.
var ErrNotInProgram = errors.New("not in the P4 program")

// Parse reads a P4Info in protobuf's text form.
func Parse(text []byte) (*Info, error) {
	message := new(configv1.P4Info)
	if err := prototext.Unmarshal(text, message); err != nil {
		return nil, fmt.Errorf("p4info: %w", err)
	}
	return New(message)
}

// New indexes a P4Info. It refuses one that contradicts itself (ids or names given twice, actions that are not there,
// keys or parameters of a width that no integer of 64 bits holds). The message must not be changed afterwards.
func New(message *configv1.P4Info) (*Info, error) {
	i := &Info{
		message:   message,
		tables:    index[*Table]{kind: "table"},
		actions:   index[*Action]{kind: "action"},
		counters:  index[*Counter]{kind: "counter"},
		direct:    index[*DirectCounter]{kind: "direct counter"},
		registers: index[*Register]{kind: "register"},
	}
	if err := i.fill(); err != nil {
		return nil, fmt.Errorf("p4info: %w", err)
	}
	return i, nil
}

func (i *Info) fill() error {
	for _, m := range i.message.GetActions() {
		action := &Action{ID: m.GetPreamble().GetId(), Name: m.GetPreamble().GetName()}
		for _, p := range m.GetParams() {
			if p.GetBitwidth() < 1 || p.GetBitwidth() > MaxWidth {
				return fmt.Errorf("parameter %s of %s has %d bits, not 1 to %d", p.GetName(), action.Name, p.GetBitwidth(), MaxWidth)
			}
			action.Params = append(action.Params, Param{p.GetId(), p.GetName(), int(p.GetBitwidth())})
		}
		if err := i.actions.add(m.GetPreamble(), action); err != nil {
			return err
		}
	}
	for _, m := range i.message.GetTables() {
		table, err := i.table(m)
		if err != nil {
			return err
		}
		if err := i.tables.add(m.GetPreamble(), table); err != nil {
			return err
		}
	}
	for _, m := range i.message.GetDirectCounters() {
		table, ok := i.tables.byID[m.GetDirectTableId()]
		if !ok {
			return fmt.Errorf("direct counter %s is of table %d, which is not there", m.GetPreamble().GetName(), m.GetDirectTableId())
		}
		table.DirectCounter = &DirectCounter{m.GetPreamble().GetId(), m.GetPreamble().GetName(), table.Name, m.GetSpec().GetUnit()}
		if err := i.direct.add(m.GetPreamble(), table.DirectCounter); err != nil {
			return err
		}
	}
	for _, m := range i.message.GetCounters() {
		counter := &Counter{m.GetPreamble().GetId(), m.GetPreamble().GetName(), m.GetSize(), m.GetSpec().GetUnit()}
		if err := i.counters.add(m.GetPreamble(), counter); err != nil {
			return err
		}
	}
	for _, m := range i.message.GetRegisters() {
		width := m.GetTypeSpec().GetBitstring().GetBit().GetBitwidth()
		register := &Register{m.GetPreamble().GetId(), m.GetPreamble().GetName(), int(width), int64(m.GetSize())}
		if err := i.registers.add(m.GetPreamble(), register); err != nil {
			return err
		}
	}
	return nil
}

func (i *Info) table(m *configv1.Table) (*Table, error) {
	table := &Table{
		ID: m.GetPreamble().GetId(), Name: m.GetPreamble().GetName(), Size: int(m.GetSize()),
		Const: m.GetIsConstTable(), ConstDefault: m.GetConstDefaultActionId() != 0,
	}
	for _, f := range m.GetMatchFields() {
		if f.GetBitwidth() < 1 || f.GetBitwidth() > MaxWidth {
			return nil, fmt.Errorf("key %s of %s has %d bits, not 1 to %d", f.GetName(), table.Name, f.GetBitwidth(), MaxWidth)
		}
		table.Keys = append(table.Keys, Key{f.GetId(), f.GetName(), int(f.GetBitwidth()), f.GetMatchType()})
	}
	for _, r := range m.GetActionRefs() {
		action, ok := i.actions.byID[r.GetId()]
		if !ok {
			return nil, fmt.Errorf("table %s has action %d, which is not there", table.Name, r.GetId())
		}
		table.Actions = append(table.Actions, ActionRef{action, r.GetScope()})
	}
	initial := m.GetInitialDefaultAction()
	if id := max(initial.GetActionId(), m.GetConstDefaultActionId()); id != 0 {
		action, ok := i.actions.byID[id]
		if !ok {
			return nil, fmt.Errorf("table %s has default action %d, which is not there", table.Name, id)
		}
		table.Default.Action = action.Name
		for _, argument := range initial.GetArguments() {
			n := slices.IndexFunc(action.Params, func(p Param) bool { return p.ID == argument.GetParamId() })
			if n < 0 {
				return nil, fmt.Errorf("table %s: default action %s has no parameter %d", table.Name, action.Name, argument.GetParamId())
			}
			v, err := Value(argument.GetValue(), action.Params[n].Width)
			if err != nil {
				return nil, fmt.Errorf("table %s: default action %s: %s: %w", table.Name, action.Name, action.Params[n].Name, err)
			}
			table.Default.Args = append(table.Default.Args, Arg{action.Params[n].Name, v})
		}
		table.Default.Args = join(table.Default.Args, action)
	}
	return table, nil
}

// Message is the P4Info itself, not to be changed.
func (i *Info) Message() *configv1.P4Info { return i.message }

// Tables are all tables, in the order of the program.
func (i *Info) Tables() []*Table { return i.tables.order }

// Table finds a table by name; the error wraps ErrNotInProgram, as those of the other kinds do.
func (i *Info) Table(name string) (*Table, error) { return i.tables.named(name) }

// TableByID finds a table by id.
func (i *Info) TableByID(id uint32) (*Table, bool) { t, ok := i.tables.byID[id]; return t, ok }

// Action finds an action by name.
func (i *Info) Action(name string) (*Action, error) { return i.actions.named(name) }

// ActionByID finds an action by id.
func (i *Info) ActionByID(id uint32) (*Action, bool) { a, ok := i.actions.byID[id]; return a, ok }

// Counters are all indexed counters, in the order of the program.
func (i *Info) Counters() []*Counter { return i.counters.order }

// Counter finds an indexed counter by name.
func (i *Info) Counter(name string) (*Counter, error) { return i.counters.named(name) }

// CounterByID finds an indexed counter by id.
func (i *Info) CounterByID(id uint32) (*Counter, bool) { c, ok := i.counters.byID[id]; return c, ok }

// Registers are all registers, in the order of the program.
func (i *Info) Registers() []*Register { return i.registers.order }

// Register finds a register by name.
func (i *Info) Register(name string) (*Register, error) { return i.registers.named(name) }

// RegisterByID finds a register by id.
func (i *Info) RegisterByID(id uint32) (*Register, bool) { r, ok := i.registers.byID[id]; return r, ok }
