#include "textflag.h"

// Instructions that Go's assembler does not know, on vectors of four 32-bit lanes; V is the number of the register that is both operand and result.
// FMUL V.4S, V.4S, V16.4S
#define SCALE(V) WORD $(0x6e30dc00 + V*33)
// FCVTNS V.4S, V.4S: to the nearest integer, ties to even.
#define TO_INTEGERS(V) WORD $(0x4e21a800 + V*33)
// SCVTF V.4S, V.4S
#define TO_FLOATS(V) WORD $(0x4e21d800 + V*33)
// SSHR V.4S, V.4S, #16
#define HALVE(V) WORD $(0x4f300400 + V*33)
// UMAXV S0, V0.4S
#define LARGEST_OF_V0 WORD $0x6eb0a800

// func magnitudeVectors(x *float32, n int) uint32
TEXT ·magnitudeVectors(SB), NOSPLIT, $0-20
	MOVD x+0(FP), R0
	MOVD n+8(FP), R1
	MOVD $0x7fffffff, R2
	VDUP R2, V16.S4
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16

magnitudeLoop:
	VLD1.P 64(R0), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P 64(R0), [V20.S4, V21.S4, V22.S4, V23.S4]
	VAND   V16.B16, V4.B16, V4.B16
	VAND   V16.B16, V5.B16, V5.B16
	VAND   V16.B16, V6.B16, V6.B16
	VAND   V16.B16, V7.B16, V7.B16
	VAND   V16.B16, V20.B16, V20.B16
	VAND   V16.B16, V21.B16, V21.B16
	VAND   V16.B16, V22.B16, V22.B16
	VAND   V16.B16, V23.B16, V23.B16
	VUMAX  V4.S4, V0.S4, V0.S4
	VUMAX  V5.S4, V1.S4, V1.S4
	VUMAX  V6.S4, V2.S4, V2.S4
	VUMAX  V7.S4, V3.S4, V3.S4
	VUMAX  V20.S4, V0.S4, V0.S4
	VUMAX  V21.S4, V1.S4, V1.S4
	VUMAX  V22.S4, V2.S4, V2.S4
	VUMAX  V23.S4, V3.S4, V3.S4
	SUBS   $32, R1, R1
	BNE    magnitudeLoop

	VUMAX V1.S4, V0.S4, V0.S4
	VUMAX V3.S4, V2.S4, V2.S4
	VUMAX V2.S4, V0.S4, V0.S4
	LARGEST_OF_V0
	VMOV  V0.S[0], R0
	MOVW  R0, ret+16(FP)
	RET

// func quantiseVectors(dst *byte, x *float32, n int, scale float32)
TEXT ·quantiseVectors(SB), NOSPLIT, $0-28
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  n+16(FP), R2
	MOVWU scale+24(FP), R3
	VDUP  R3, V16.S4

quantiseLoop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	SCALE(0)
	SCALE(1)
	SCALE(2)
	SCALE(3)
	TO_INTEGERS(0)
	TO_INTEGERS(1)
	TO_INTEGERS(2)
	TO_INTEGERS(3)
	VREV32 V0.B16, V0.B16
	VREV32 V1.B16, V1.B16
	VREV32 V2.B16, V2.B16
	VREV32 V3.B16, V3.B16
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2, R2
	BNE    quantiseLoop
	RET

// func dequantiseVectors(x *float32, src *byte, n int, scale float32)
TEXT ·dequantiseVectors(SB), NOSPLIT, $0-28
	MOVD  x+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  n+16(FP), R2
	MOVWU scale+24(FP), R3
	VDUP  R3, V16.S4

dequantiseLoop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	VREV32 V0.B16, V0.B16
	VREV32 V1.B16, V1.B16
	VREV32 V2.B16, V2.B16
	VREV32 V3.B16, V3.B16
	TO_FLOATS(0)
	TO_FLOATS(1)
	TO_FLOATS(2)
	TO_FLOATS(3)
	SCALE(0)
	SCALE(1)
	SCALE(2)
	SCALE(3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2, R2
	BNE    dequantiseLoop
	RET

// func quantisePairVectors(dst *byte, x *float32, n int, scale float32)
//
// A word is the first of its two elements, shifted to the upper half, plus the second.
TEXT ·quantisePairVectors(SB), NOSPLIT, $0-28
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  n+16(FP), R2
	MOVWU scale+24(FP), R3
	VDUP  R3, V16.S4

quantisePairsLoop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	SCALE(0)
	SCALE(1)
	SCALE(2)
	SCALE(3)
	TO_INTEGERS(0)
	TO_INTEGERS(1)
	TO_INTEGERS(2)
	TO_INTEGERS(3)
	VUZP1  V1.S4, V0.S4, V4.S4
	VUZP2  V1.S4, V0.S4, V5.S4
	VUZP1  V3.S4, V2.S4, V6.S4
	VUZP2  V3.S4, V2.S4, V7.S4
	VSHL   $16, V4.S4, V4.S4
	VSHL   $16, V6.S4, V6.S4
	VADD   V5.S4, V4.S4, V4.S4
	VADD   V7.S4, V6.S4, V5.S4
	VREV32 V4.B16, V4.B16
	VREV32 V5.B16, V5.B16
	VST1.P [V4.S4, V5.S4], 32(R0)
	SUBS   $16, R2, R2
	BNE    quantisePairsLoop
	RET

// func dequantisePairVectors(x *float32, src *byte, n int, scale float32)
TEXT ·dequantisePairVectors(SB), NOSPLIT, $0-28
	MOVD  x+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  n+16(FP), R2
	MOVWU scale+24(FP), R3
	VDUP  R3, V16.S4

dequantisePairsLoop:
	VLD1.P 32(R1), [V4.S4, V5.S4]
	VREV32 V4.B16, V4.B16
	VREV32 V5.B16, V5.B16
	VSHL   $16, V4.S4, V6.S4
	VSHL   $16, V5.S4, V7.S4
	HALVE(6)
	HALVE(7)
	VSUB   V6.S4, V4.S4, V4.S4
	VSUB   V7.S4, V5.S4, V5.S4
	HALVE(4)
	HALVE(5)
	VZIP1  V6.S4, V4.S4, V0.S4
	VZIP2  V6.S4, V4.S4, V1.S4
	VZIP1  V7.S4, V5.S4, V2.S4
	VZIP2  V7.S4, V5.S4, V3.S4
	TO_FLOATS(0)
	TO_FLOATS(1)
	TO_FLOATS(2)
	TO_FLOATS(3)
	SCALE(0)
	SCALE(1)
	SCALE(2)
	SCALE(3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2, R2
	BNE    dequantisePairsLoop
	RET

// func swapVectors(dst, src unsafe.Pointer, n int)
TEXT ·swapVectors(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2

swapLoop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	VREV32 V0.B16, V0.B16
	VREV32 V1.B16, V1.B16
	VREV32 V2.B16, V2.B16
	VREV32 V3.B16, V3.B16
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2, R2
	BNE    swapLoop
	RET
