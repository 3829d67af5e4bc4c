package fixedpoint

import "encoding/binary"

// EncodeInt32 writes x as big-endian int32 into dst, which has 4 bytes for each element of x.
func EncodeInt32(dst []byte, x []int32) {
	done := encodeBlocks(dst, x)
	encodePortable(dst[4*done:], x[done:])
}

func encodePortable(dst []byte, x []int32) {
	for len(x) >= 8 && len(dst) >= 32 {
		s, d := (*[8]int32)(x), (*[32]byte)(dst)
		binary.BigEndian.PutUint32(d[0:4], uint32(s[0]))
		binary.BigEndian.PutUint32(d[4:8], uint32(s[1]))
		binary.BigEndian.PutUint32(d[8:12], uint32(s[2]))
		binary.BigEndian.PutUint32(d[12:16], uint32(s[3]))
		binary.BigEndian.PutUint32(d[16:20], uint32(s[4]))
		binary.BigEndian.PutUint32(d[20:24], uint32(s[5]))
		binary.BigEndian.PutUint32(d[24:28], uint32(s[6]))
		binary.BigEndian.PutUint32(d[28:32], uint32(s[7]))
		x, dst = x[8:], dst[32:]
	}
	for _, v := range x {
		binary.BigEndian.PutUint32(dst, uint32(v))
		dst = dst[4:]
	}
}

// DecodeInt32 reads the big-endian int32 of src into x; src has 4 bytes for each element of x.
func DecodeInt32(x []int32, src []byte) {
	done := decodeBlocks(x, src)
	decodePortable(x[done:], src[4*done:])
}

func decodePortable(x []int32, src []byte) {
	for len(x) >= 8 && len(src) >= 32 {
		d, s := (*[8]int32)(x), (*[32]byte)(src)
		d[0] = int32(binary.BigEndian.Uint32(s[0:4]))
		d[1] = int32(binary.BigEndian.Uint32(s[4:8]))
		d[2] = int32(binary.BigEndian.Uint32(s[8:12]))
		d[3] = int32(binary.BigEndian.Uint32(s[12:16]))
		d[4] = int32(binary.BigEndian.Uint32(s[16:20]))
		d[5] = int32(binary.BigEndian.Uint32(s[20:24]))
		d[6] = int32(binary.BigEndian.Uint32(s[24:28]))
		d[7] = int32(binary.BigEndian.Uint32(s[28:32]))
		x, src = x[8:], src[32:]
	}
	for i := range x {
		x[i] = int32(binary.BigEndian.Uint32(src))
		src = src[4:]
	}
}
