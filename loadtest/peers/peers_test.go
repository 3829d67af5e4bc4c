package peers

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server and returns its address, what ends it, and what Serve returns.
func serve(t *testing.T) (address string, cancel func(), served <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	result := make(chan error, 1)
	go func() { result <- Serve(ctx, listener) }()
	return listener.Addr().String(), cancel, result
}

// Sums of whole numbers below 2^24 are exact in float32, in any order.
func TestParameterServer(t *testing.T) {
	address, cancel, served := serve(t)
	for _, c := range []struct{ workers, elements, tensors int }{
		{1, 1, 3}, {2, pieceElements, 5}, {3, pieceElements + 1, 5}, {4, 3*pieceElements - 7, 20}, {5, 1000, 200},
	} {
		var job errgroup.Group
		for rank := range c.workers {
			job.Go(func() error {
				client, err := Dial(t.Context(), address, c.workers, c.elements)
				if err != nil {
					return err
				}
				tensor := make([]float32, c.elements)
				for number := range c.tensors {
					for i := range tensor {
						tensor[i] = float32((i + rank*1000 + number) % 100_003)
					}
					if err := client.AllReduce(tensor); err != nil {
						return errors.Join(err, client.Close())
					}
					for i, got := range tensor {
						want := 0
						for other := range c.workers {
							want += (i + other*1000 + number) % 100_003
						}
						if got != float32(want) {
							t.Errorf("%+v, tensor %d at rank %d: element %d is %v, want %d", c, number, rank, i, got, want)
							break
						}
					}
				}
				return client.Close()
			})
		}
		if err := job.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("the server ended with %v", err)
	}
}

// A worker that dies with its job half done takes the job along: nobody waits for ever.
func TestBrokenConnection(t *testing.T) {
	address, _, served := serve(t)
	const elements = 2 * pieceElements
	var clients []*Client
	for range 2 {
		client, err := Dial(t.Context(), address, 2, elements)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	reduced := make(chan error, 1)
	go func() { reduced <- clients[0].AllReduce(make([]float32, elements)) }()
	if _, err := clients[1].conn.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := clients[1].Close(); err != nil {
		t.Error(err)
	}
	if err := <-reduced; err == nil {
		t.Error("the sum came without a worker's contribution")
	}
	if err := clients[0].Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err == nil || !strings.Contains(err.Error(), "receive piece 0") {
		t.Errorf("the server ended with %v", err)
	}
}

func TestBadHello(t *testing.T) {
	for name, said := range map[string][]byte{"nothing": nil, "garbage": bytes.Repeat([]byte("GET / "), 5), "no workers": append([]byte("SPPS\x00\x00\x00\x01"), make([]byte, 8)...)} {
		if h, err := readHello(bytes.NewReader(said)); !errors.Is(err, errHello) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	var b bytes.Buffer
	if err := (hello{3, 1000}).write(&b); err != nil {
		t.Fatal(err)
	}
	if h, err := readHello(&b); err != nil || h != (hello{3, 1000}) {
		t.Errorf("%+v, %v", h, err)
	}
}

func FuzzHello(f *testing.F) {
	f.Add([]byte("SPPS\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x10\x00"))
	f.Fuzz(func(t *testing.T, said []byte) {
		h, err := readHello(bytes.NewReader(said))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := h.write(&b); err != nil || !bytes.Equal(b.Bytes(), said[:helloSize]) {
			t.Errorf("%x reads as %+v, which writes as %x, %v", said, h, b.Bytes(), err)
		}
	})
}

// TestStyle: flake8 finds nothing in the rank in Python.
func TestStyle(t *testing.T) {
	if out, err := exec.Command("/usr/bin/python3", "-m", "flake8", "--max-line-length", "170", "allreduce.py").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
