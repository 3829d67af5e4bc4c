#include "textflag.h"

// Reverses the bytes of each 32-bit word of a 128-bit lane.
DATA swapWords<>+0(SB)/8, $0x0405060700010203
DATA swapWords<>+8(SB)/8, $0x0c0d0e0f08090a0b
DATA swapWords<>+16(SB)/8, $0x0405060700010203
DATA swapWords<>+24(SB)/8, $0x0c0d0e0f08090a0b
GLOBL swapWords<>(SB), RODATA|NOPTR, $32

DATA magnitudeMask<>+0(SB)/4, $0x7fffffff
GLOBL magnitudeMask<>(SB), RODATA|NOPTR, $4

// func magnitudeVectors(x *float32, n int) uint32
TEXT ·magnitudeVectors(SB), NOSPLIT, $0-20
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	VPBROADCASTD magnitudeMask<>(SB), Y8
	VPXOR        Y0, Y0, Y0
	VPXOR        Y1, Y1, Y1
	VPXOR        Y2, Y2, Y2
	VPXOR        Y3, Y3, Y3

magnitudeLoop:
	VPAND   (SI), Y8, Y4
	VPAND   32(SI), Y8, Y5
	VPAND   64(SI), Y8, Y6
	VPAND   96(SI), Y8, Y7
	VPMAXUD Y4, Y0, Y0
	VPMAXUD Y5, Y1, Y1
	VPMAXUD Y6, Y2, Y2
	VPMAXUD Y7, Y3, Y3
	ADDQ    $128, SI
	SUBQ    $32, CX
	JNZ     magnitudeLoop

	VPMAXUD      Y1, Y0, Y0
	VPMAXUD      Y3, Y2, Y2
	VPMAXUD      Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0xb1, X0, X1
	VPMAXUD      X1, X0, X0
	VMOVD        X0, AX
	VZEROUPPER
	MOVL         AX, ret+16(FP)
	RET

// func quantiseVectors(dst *byte, x *float32, n int, scale float32)
//
// The conversion to int32 rounds as the processor is set to: to nearest, ties to
// even, like the portable addition of the shifter.
TEXT ·quantiseVectors(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS scale+24(FP), Y8
	VMOVDQU      swapWords<>(SB), Y9

quantiseLoop:
	VMULPS    (SI), Y8, Y0
	VMULPS    32(SI), Y8, Y1
	VMULPS    64(SI), Y8, Y2
	VMULPS    96(SI), Y8, Y3
	VCVTPS2DQ Y0, Y0
	VCVTPS2DQ Y1, Y1
	VCVTPS2DQ Y2, Y2
	VCVTPS2DQ Y3, Y3
	VPSHUFB   Y9, Y0, Y0
	VPSHUFB   Y9, Y1, Y1
	VPSHUFB   Y9, Y2, Y2
	VPSHUFB   Y9, Y3, Y3
	VMOVDQU   Y0, (DI)
	VMOVDQU   Y1, 32(DI)
	VMOVDQU   Y2, 64(DI)
	VMOVDQU   Y3, 96(DI)
	ADDQ      $128, SI
	ADDQ      $128, DI
	SUBQ      $32, CX
	JNZ       quantiseLoop
	VZEROUPPER
	RET

// func dequantiseVectors(x *float32, src *byte, n int, scale float32)
TEXT ·dequantiseVectors(SB), NOSPLIT, $0-28
	MOVQ         x+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS scale+24(FP), Y8
	VMOVDQU      swapWords<>(SB), Y9

dequantiseLoop:
	VMOVDQU   (SI), Y0
	VMOVDQU   32(SI), Y1
	VMOVDQU   64(SI), Y2
	VMOVDQU   96(SI), Y3
	VPSHUFB   Y9, Y0, Y0
	VPSHUFB   Y9, Y1, Y1
	VPSHUFB   Y9, Y2, Y2
	VPSHUFB   Y9, Y3, Y3
	VCVTDQ2PS Y0, Y0
	VCVTDQ2PS Y1, Y1
	VCVTDQ2PS Y2, Y2
	VCVTDQ2PS Y3, Y3
	VMULPS    Y8, Y0, Y0
	VMULPS    Y8, Y1, Y1
	VMULPS    Y8, Y2, Y2
	VMULPS    Y8, Y3, Y3
	VMOVUPS   Y0, (DI)
	VMOVUPS   Y1, 32(DI)
	VMOVUPS   Y2, 64(DI)
	VMOVUPS   Y3, 96(DI)
	ADDQ      $128, SI
	ADDQ      $128, DI
	SUBQ      $32, CX
	JNZ       dequantiseLoop
	VZEROUPPER
	RET

// func swapVectors(dst, src unsafe.Pointer, n int)
TEXT ·swapVectors(SB), NOSPLIT, $0-24
	MOVQ    dst+0(FP), DI
	MOVQ    src+8(FP), SI
	MOVQ    n+16(FP), CX
	VMOVDQU swapWords<>(SB), Y9

swapLoop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPSHUFB Y9, Y0, Y0
	VPSHUFB Y9, Y1, Y1
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNZ     swapLoop
	VZEROUPPER
	RET
