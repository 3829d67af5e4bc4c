package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"
)

// pieceElements is how many elements travel and are summed together: 128 kB fit into a core's cache beside the packets that carry them.
const pieceElements = 32 << 10

// MaxElements is the longest tensor.
const MaxElements = 1<<31 - 1

// helloMagic begins a connection: "SPPS", and a version.
const helloMagic = 0x53505053_00000001

// helloSize is the length of a hello in bytes.
const helloSize = 8 + 4 + 4

// hello is how a worker introduces itself. All of a job say the same.
type hello struct {
	workers  uint32
	elements uint32 // of each tensor
}

func (h hello) write(w io.Writer) error {
	b := binary.BigEndian.AppendUint64(nil, helloMagic)
	b = binary.BigEndian.AppendUint32(b, h.workers)
	b = binary.BigEndian.AppendUint32(b, h.elements)
	_, err := w.Write(b)
	return err
}

// errHello is a connection that does not begin as one of a worker's does.
var errHello = errors.New("not a worker of the parameter server")

func readHello(r io.Reader) (hello, error) {
	b := make([]byte, helloSize)
	if _, err := io.ReadFull(r, b); err != nil {
		return hello{}, fmt.Errorf("%w: %w", errHello, err)
	}
	h := hello{binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
	if binary.BigEndian.Uint64(b) != helloMagic || h.workers == 0 || h.elements == 0 || h.elements > MaxElements {
		return hello{}, fmt.Errorf("%w: %x", errHello, b)
	}
	return h, nil
}

// bytesOf is the memory of elements.
func bytesOf(elements []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elements))), len(elements)*4)
}

// pieces is how many a tensor has.
func pieces(elements int) int { return (elements + pieceElements - 1) / pieceElements }
