package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ElectionID is a 128-bit number that orders the clients of a role.
type ElectionID struct{ High, Low uint64 }

// Compare is negative, 0 or positive, as e is less than, equal to or more than other.
func (e ElectionID) Compare(other ElectionID) int {
	return cmp.Or(cmp.Compare(e.High, other.High), cmp.Compare(e.Low, other.Low))
}

// Next is the next higher election id; after the highest comes 0.
func (e ElectionID) Next() ElectionID {
	e.Low++
	if e.Low == 0 {
		e.High++
	}
	return e
}

func (e ElectionID) String() string {
	if e.High == 0 {
		return fmt.Sprint(e.Low)
	}
	return fmt.Sprintf("%#x%016x", e.High, e.Low)
}

func (e *ElectionID) message() *p4v1.Uint128 {
	if e == nil {
		return nil
	}
	return &p4v1.Uint128{High: e.High, Low: e.Low}
}

// Arbitration is what the server said last about who is primary.
type Arbitration struct {
	// Status is OK for the primary, ALREADY_EXISTS for a backup of another primary and NOT_FOUND when there is none.
	Status codes.Code
	// Highest is the highest election id that the server has seen for the role, nil before there was any primary.
	Highest *ElectionID
	// Message is the server's, for people.
	Message string
}

// Primary tells whether this client is.
func (a Arbitration) Primary() bool { return a.Status == codes.OK }

func (a Arbitration) String() string {
	switch a.Status {
	case codes.OK:
		return "primary"
	case codes.NotFound:
		return "backup without a primary"
	}
	return fmt.Sprintf("backup of the primary with election id %v", a.Highest)
}

// Arbitration is what the server said last, and a channel that is closed when it says something else.
func (c *Client) Arbitration() (Arbitration, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.changed
}

// Elect asks for the role with an election id, which replaces the one asked with before (a lower one steps down, a
// nil one for good), and returns the answer.
func (c *Client) Elect(ctx context.Context, id *ElectionID) (Arbitration, error) {
	update := &p4v1.MasterArbitrationUpdate{DeviceId: c.config.Device, ElectionId: id.message()}
	if c.config.Role != "" {
		update.Role = &p4v1.Role{Name: c.config.Role}
	}
	answered, err := c.ask(update, id)
	if err != nil {
		return Arbitration{}, err
	}
	for {
		select {
		case <-answered:
		case <-c.session.Done():
			return Arbitration{}, &SessionError{c.Err()}
		case <-ctx.Done():
			return Arbitration{}, fmt.Errorf("wait for the answer to arbitration: %w", context.Cause(ctx))
		}
		var now Arbitration
		// A notice that was under way when this client asked may come first. Once the server has heard of this id, it has
		// seen none higher or tells of one.
		if now, answered = c.Arbitration(); id == nil || now.Highest != nil && now.Highest.Compare(*id) >= 0 {
			return now, nil
		}
	}
}

// ask sends an update and returns the channel that the next notice closes.
func (c *Client) ask(update *p4v1.MasterArbitrationUpdate, id *ElectionID) (<-chan struct{}, error) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	c.asked = id
	answered := c.changed
	c.mu.Unlock()
	err := c.stream.Send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Arbitration{Arbitration: update}})
	if errors.Is(err, io.EOF) { // the reason is received
		<-c.received
		return nil, &SessionError{c.Err()}
	}
	if err != nil {
		return nil, c.because(fmt.Errorf("send to the stream channel: %w", err))
	}
	return answered, nil
}

// WaitPrimary waits until this client is primary.
func (c *Client) WaitPrimary(ctx context.Context) error {
	for {
		now, changed := c.Arbitration()
		if now.Primary() && c.Err() == nil {
			return nil
		}
		select {
		case <-changed:
		case <-c.session.Done():
			return &SessionError{c.Err()}
		case <-ctx.Done():
			return fmt.Errorf("wait to be primary, now %s: %w", now, context.Cause(ctx))
		}
	}
}

// election is the id that calls are made with.
func (c *Client) election() *p4v1.Uint128 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked.message()
}

// receive reads the stream channel until it ends, and ends the session then.
func (c *Client) receive() {
	defer close(c.received)
	for {
		message, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errors.New("the server closed the stream channel")
		}
		if err == nil {
			err = c.take(message)
		}
		if err != nil {
			c.end(err) // the first reason stays
			return
		}
	}
}

// take handles one message of the server. This client sends no packets and acknowledges no digests, so an error that the
// server reports on the stream is one of this session, and ends it.
func (c *Client) take(message *p4v1.StreamMessageResponse) error {
	switch m := message.GetUpdate().(type) {
	case *p4v1.StreamMessageResponse_Arbitration:
		now := Arbitration{Status: codes.Code(m.Arbitration.GetStatus().GetCode()), Message: m.Arbitration.GetStatus().GetMessage()}
		if id := m.Arbitration.GetElectionId(); id != nil {
			now.Highest = &ElectionID{id.GetHigh(), id.GetLow()}
		}
		c.mu.Lock()
		c.current = now
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	case *p4v1.StreamMessageResponse_Error:
		return fmt.Errorf("the server reports on the stream channel: %w", status.Error(codes.Code(m.Error.GetCanonicalCode()), m.Error.GetMessage()))
	}
	return nil
}

// ElectionID is the one that this client asked with last, the zero one if that was none.
func (c *Client) ElectionID() ElectionID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		return ElectionID{}
	}
	return *c.asked
}
