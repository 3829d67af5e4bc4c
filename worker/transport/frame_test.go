package transport

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// plainSum is RFC 1071 word by word.
func plainSum(b []byte, before uint64) uint16 {
	sum := before
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

func TestOnesSum(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		b := make([]byte, random.IntN(200))
		for i := range b {
			b[i] = byte(random.Uint32())
			if random.IntN(3) == 0 {
				b[i] = 0xff
			}
		}
		before := random.Uint64() >> (16 + random.IntN(48))
		if got, want := onesSum(b, before), plainSum(b, before); got != want {
			t.Fatalf("sum of %x and %d: %#x, want %#x", b, before, got, want)
		}
	}
}

func newFrame(payload []byte) []byte {
	h := newHeader(hardwareAddr{2, 0, 0, 0, 0, 1}, hardwareAddr{2, 0, 0, 0, 0, 2}, [4]byte{10, 0, 0, 1}, 4000, [4]byte{10, 0, 0, 2})
	frame := append(bytes.Clone(h.bytes[:]), payload...)
	h.finish(frame, 9000)
	return frame
}

func TestFrame(t *testing.T) {
	for size := range 200 {
		payload := bytes.Repeat([]byte{byte(size), 0xff, 3}, 70)[:size]
		frame := newFrame(payload)
		if sum := plainSum(frame[ipAt:udpAt], 0); sum != 0xffff {
			t.Fatalf("%d bytes: the IP header sums to %#x", size, sum)
		}
		p, v := parse(append(frame, 0, 0, 0)) // a frame may be padded
		if v != whole || !bytes.Equal(p.payload, payload) || p.from != [4]byte{10, 0, 0, 1} || p.port != 4000 || p.ecn != ectZero {
			t.Fatalf("%d bytes: %+v, %d", size, p, v)
		}
		for i := range frame[ipAt:] {
			broken := bytes.Clone(frame)
			broken[ipAt+i] ^= 0x10
			if _, v := parse(broken); v == whole {
				t.Fatalf("%d bytes: a flipped bit in byte %d is not found", size, ipAt+i)
			}
		}
	}
}

func TestFrameWithoutWholeChecksum(t *testing.T) {
	frame := newFrame([]byte{1, 2, 3})
	udp := frame[udpAt:]
	binary.BigEndian.PutUint16(udp[6:], 0)
	if _, v := parse(frame); v != whole {
		t.Error("a packet without a checksum is refused")
	}
	binary.BigEndian.PutUint16(udp[6:], plainSum(frame[ipAt+12:udpAt], uint64(protocolUDP+len(udp))))
	if _, v := parse(frame); v != whole {
		t.Error("a packet whose checksum was left to a device is refused")
	}
	udp[6]++
	if _, v := parse(frame); v != damaged {
		t.Error("a packet with a wrong checksum is taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(newFrame([]byte{1, 2, 3}))
	f.Add(newFrame(make([]byte, 1052)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if p, v := parse(frame); v == whole && len(p.payload) > len(frame)-payloadAt {
			t.Errorf("a payload of %d bytes in a frame of %d", len(p.payload), len(frame))
		}
	})
}

func BenchmarkOnesSum(b *testing.B) {
	payload := make([]byte, 3356)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		onesSum(payload, 0)
	}
}
