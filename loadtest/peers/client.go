package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// A Client is a worker of the parameter server. It all-reduces one tensor at a time.
type Client struct {
	conn     net.Conn
	elements int
	tensors  chan []float32 // to the goroutine that sends; closed by Close
	sent     chan error     // one for each of them; closed when it has ended
}

// Dial connects a worker, in the namespace of the thread that calls it, whose job has so many workers and tensors of so many elements.
func Dial(ctx context.Context, address string, workers, elements int) (*Client, error) {
	if elements < 1 || elements > MaxElements {
		return nil, fmt.Errorf("a tensor of %d elements: want 1 to %d", elements, MaxElements)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", address)
	if err != nil {
		return nil, fmt.Errorf("reach the parameter server: %w", err)
	}
	if err := (hello{uint32(workers), uint32(elements)}).write(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the parameter server: %w", err), conn.Close())
	}
	c := &Client{conn: conn, elements: elements, tensors: make(chan []float32), sent: make(chan error, 1)}
	go c.send()
	return c, nil
}

// send writes one tensor after the other.
func (c *Client) send() {
	defer close(c.sent)
	for tensor := range c.tensors {
		_, err := c.conn.Write(bytesOf(tensor))
		c.sent <- err
	}
}

// AllReduce sums a tensor in place over all workers. A piece of the sum comes only when all have sent theirs, this one too, so that it never overtakes what it
// is written over.
func (c *Client) AllReduce(tensor []float32) error {
	if len(tensor) != c.elements {
		return fmt.Errorf("a tensor of %d elements, %d were announced", len(tensor), c.elements)
	}
	if len(tensor) <= pieceElements { // not worth a goroutine: nothing can come before all is sent
		if _, err := c.conn.Write(bytesOf(tensor)); err != nil {
			return fmt.Errorf("send to the parameter server: %w", err)
		}
	} else {
		c.tensors <- tensor
		defer func() { <-c.sent }() // should it have failed, so has what follows
	}
	if _, err := io.ReadFull(c.conn, bytesOf(tensor)); err != nil {
		// The other direction may be waiting for a server that is not there any more.
		return errors.Join(fmt.Errorf("receive from the parameter server: %w", err), c.conn.Close())
	}
	return nil
}

// Close ends the connection.
func (c *Client) Close() error {
	close(c.tensors)
	for range c.sent {
	}
	if err := c.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("leave the parameter server: %w", err)
	}
	return nil
}
