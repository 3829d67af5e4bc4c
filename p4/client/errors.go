package client

import (
	"fmt"
	"strings"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"spillway/p4/p4info"
)

// BatchError says what could not be written or read of a batch.
type BatchError struct {
	// Op is "write" or "read".
	Op string
	// Of is the number of entities in the batch.
	Of int
	// Errors are those of the ones that failed, in the batch's order; at least one.
	Errors []EntityError
}

// shown is how many errors of a batch are in its message.
const shown = 3

func (e *BatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %d failed", e.Op, len(e.Errors), e.Of)
	for _, each := range e.Errors[:min(shown, len(e.Errors))] {
		b.WriteString("; " + each.Error())
	}
	if len(e.Errors) > shown {
		b.WriteString("; …")
	}
	return b.String()
}

// Unwrap gives the errors of the entities.
func (e *BatchError) Unwrap() []error {
	out := make([]error, len(e.Errors))
	for n := range e.Errors {
		out[n] = &e.Errors[n]
	}
	return out
}

// EntityError is the error of one entity of a batch.
type EntityError struct {
	// Index is its place in the batch.
	Index int
	// Update is what was to be done with it; UPDATE_UNSPECIFIED in a read.
	Update p4v1.Update_Type
	// Entity is the entity itself.
	Entity *p4v1.Entity
	// Name is that of its table, counter or register ("multicast_group_entry[3]" for a group), as far as it is known.
	Name string
	// Field is the key, parameter or other field that is wrong, when the server says which.
	Field string
	// Code is P4Runtime's canonical code.
	Code codes.Code
	// Message is the server's.
	Message string
	// Space and SpaceCode are the server's own code.
	Space     string
	SpaceCode int32
}

func (e *EntityError) Error() string {
	what := e.Message
	if path := p4info.Path(e.Name, e.Field); !strings.HasPrefix(what, path) {
		what = path + ": " + what
	}
	if e.Update != p4v1.Update_UNSPECIFIED {
		what = e.Update.String() + " " + what
	}
	return fmt.Sprintf("%d: %s (%s)", e.Index, what, e.Code)
}

// GRPCStatus makes status.Code know the error.
func (e *EntityError) GRPCStatus() *status.Status { return status.New(e.Code, e.Error()) }

// decode makes a *BatchError of the status of a batch, if it is one.
func (c *Client) decode(op string, err error, entities []*p4v1.Entity) error {
	st, ok := status.FromError(err)
	details := st.Details()
	if !ok || len(details) == 0 || len(details) != len(entities) {
		return fmt.Errorf("%s: %w", op, err)
	}
	batch := &BatchError{Op: op, Of: len(entities)}
	for n, detail := range details {
		each, ok := detail.(*p4v1.Error)
		if !ok {
			return fmt.Errorf("%s: %w (detail %d is no P4Runtime error: %v)", op, err, n, detail)
		}
		if codes.Code(each.GetCanonicalCode()) == codes.OK {
			continue
		}
		entity := EntityError{
			Index: n, Entity: entities[n], Name: c.name(entities[n]), Code: codes.Code(each.GetCanonicalCode()),
			Message: each.GetMessage(), Space: each.GetSpace(), SpaceCode: each.GetCode(),
		}
		var bad errdetails.BadRequest
		if each.GetDetails().MessageIs(&bad) && each.GetDetails().UnmarshalTo(&bad) == nil && len(bad.GetFieldViolations()) > 0 {
			entity.Field = strings.TrimPrefix(bad.GetFieldViolations()[0].GetField(), entity.Name+".")
		}
		batch.Errors = append(batch.Errors, entity)
	}
	if len(batch.Errors) == 0 {
		return fmt.Errorf("%s: %w", op, err)
	}
	return batch
}

// name is what an entity is of, in the program's names if they are known.
func (c *Client) name(entity *p4v1.Entity) string {
	named := func(kind string, id uint32, find func(*p4info.Info) (string, bool)) string {
		if c.config.Info != nil {
			if name, ok := find(c.config.Info); ok {
				return name
			}
		}
		return fmt.Sprintf("%s %#x", kind, id)
	}
	table := func(id uint32) string {
		return named("table", id, func(i *p4info.Info) (string, bool) {
			t, ok := i.TableByID(id)
			if !ok {
				return "", false
			}
			return t.Name, true
		})
	}
	switch e := entity.GetEntity().(type) {
	case *p4v1.Entity_TableEntry:
		return table(e.TableEntry.GetTableId())
	case *p4v1.Entity_DirectCounterEntry:
		return table(e.DirectCounterEntry.GetTableEntry().GetTableId())
	case *p4v1.Entity_CounterEntry:
		return named("counter", e.CounterEntry.GetCounterId(), func(i *p4info.Info) (string, bool) {
			counter, ok := i.CounterByID(e.CounterEntry.GetCounterId())
			if !ok {
				return "", false
			}
			return counter.Name, true
		})
	case *p4v1.Entity_RegisterEntry:
		return named("register", e.RegisterEntry.GetRegisterId(), func(i *p4info.Info) (string, bool) {
			register, ok := i.RegisterByID(e.RegisterEntry.GetRegisterId())
			if !ok {
				return "", false
			}
			return register.Name, true
		})
	case *p4v1.Entity_PacketReplicationEngineEntry:
		return fmt.Sprintf("multicast_group_entry[%d]", e.PacketReplicationEngineEntry.GetMulticastGroupEntry().GetMulticastGroupId())
	}
	return fmt.Sprintf("%T", entity.GetEntity())
}
