package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Write makes updates, in one batch; those that can be made are, whatever becomes of the others. A *BatchError says which could not.
//
// The specification lets a server reorder a batch. BMv2's and the software ToR do not; for another, dependent
// updates belong into batches of their own.
func (c *Client) Write(ctx context.Context, updates ...*p4v1.Update) error {
	return c.WriteAtomic(ctx, p4v1.WriteRequest_CONTINUE_ON_ERROR, updates...)
}

// WriteAtomic makes updates in one batch with one of P4Runtime's atomicities; servers need not know others than CONTINUE_ON_ERROR.
func (c *Client) WriteAtomic(ctx context.Context, atomicity p4v1.WriteRequest_Atomicity, updates ...*p4v1.Update) error {
	if len(updates) == 0 {
		return nil
	}
	err := c.during(ctx, func(ctx context.Context) error {
		_, err := c.rpc.Write(ctx, &p4v1.WriteRequest{
			DeviceId: c.config.Device, Role: c.config.Role, ElectionId: c.election(), Updates: updates, Atomicity: atomicity,
		})
		return err
	})
	if err != nil {
		entities := make([]*p4v1.Entity, len(updates))
		for n, u := range updates {
			entities[n] = u.GetEntity()
		}
		batch := c.decode("write", err, entities)
		var each *BatchError
		if errors.As(batch, &each) {
			for n := range each.Errors {
				each.Errors[n].Update = updates[each.Errors[n].Index].GetType()
			}
		}
		return batch
	}
	return nil
}

// Read reads entities; ids and indices of 0 or absent are wildcards. When some cannot be read, the others are returned
// with a *BatchError.
func (c *Client) Read(ctx context.Context, entities ...*p4v1.Entity) ([]*p4v1.Entity, error) {
	var found []*p4v1.Entity
	err := c.during(ctx, func(ctx context.Context) error {
		stream, err := c.rpc.Read(ctx, &p4v1.ReadRequest{DeviceId: c.config.Device, Role: c.config.Role, Entities: entities})
		if err != nil {
			return err
		}
		for {
			answer, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			found = append(found, answer.GetEntities()...)
		}
	})
	if err != nil {
		return found, c.decode("read", err, entities)
	}
	return found, nil
}

// DefaultEntry reads the default entry of a table.
func (c *Client) DefaultEntry(ctx context.Context, table uint32) (*p4v1.TableEntry, error) {
	found, err := c.Read(ctx, &p4v1.Entity{Entity: &p4v1.Entity_TableEntry{TableEntry: &p4v1.TableEntry{TableId: table, IsDefaultAction: true}}})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 || found[0].GetTableEntry() == nil {
		return nil, fmt.Errorf("read the default entry of table %#x: %d entities came", table, len(found))
	}
	return found[0].GetTableEntry(), nil
}
