#include "textflag.h"

// Reverses the bytes of each 32-bit word of a 128-bit lane.
DATA swapPairs<>+0(SB)/8, $0x0405060700010203
DATA swapPairs<>+8(SB)/8, $0x0c0d0e0f08090a0b
DATA swapPairs<>+16(SB)/8, $0x0405060700010203
DATA swapPairs<>+24(SB)/8, $0x0c0d0e0f08090a0b
GLOBL swapPairs<>(SB), RODATA|NOPTR, $32

// func quantisePairVectors(dst *byte, x *float32, n int, scale float32)
//
// Sixteen integers become the 16-bit halves of eight words, in which the packing
// of two registers leaves the middle quarters exchanged. In memory order the first of two
// elements is the lower half of its word: word = lower<<16 + sign-extended upper.
TEXT ·quantisePairVectors(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS scale+24(FP), Y8
	VMOVDQU      swapPairs<>(SB), Y9

quantisePairsLoop:
	VMULPS    (SI), Y8, Y0
	VMULPS    32(SI), Y8, Y1
	VMULPS    64(SI), Y8, Y2
	VMULPS    96(SI), Y8, Y3
	VCVTPS2DQ Y0, Y0
	VCVTPS2DQ Y1, Y1
	VCVTPS2DQ Y2, Y2
	VCVTPS2DQ Y3, Y3
	VPACKSSDW Y1, Y0, Y0
	VPACKSSDW Y3, Y2, Y2
	VPERMQ    $0xd8, Y0, Y0
	VPERMQ    $0xd8, Y2, Y2
	VPSLLD    $16, Y0, Y1
	VPSLLD    $16, Y2, Y3
	VPSRAD    $16, Y0, Y0
	VPSRAD    $16, Y2, Y2
	VPADDD    Y1, Y0, Y0
	VPADDD    Y3, Y2, Y2
	VPSHUFB   Y9, Y0, Y0
	VPSHUFB   Y9, Y2, Y2
	VMOVDQU   Y0, (DI)
	VMOVDQU   Y2, 32(DI)
	ADDQ      $128, SI
	ADDQ      $64, DI
	SUBQ      $32, CX
	JNZ       quantisePairsLoop
	VZEROUPPER
	RET

// func dequantisePairVectors(x *float32, src *byte, n int, scale float32)
TEXT ·dequantisePairVectors(SB), NOSPLIT, $0-28
	MOVQ         x+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS scale+24(FP), Y8
	VMOVDQU      swapPairs<>(SB), Y9

dequantisePairsLoop:
	// The quarters are exchanged so that interleaving within halves restores their order.
	VPERMQ     $0xd8, (SI), Y0
	VPERMQ     $0xd8, 32(SI), Y2
	VPSHUFB    Y9, Y0, Y0
	VPSHUFB    Y9, Y2, Y2
	VPSLLD     $16, Y0, Y1
	VPSLLD     $16, Y2, Y3
	VPSRAD     $16, Y1, Y1
	VPSRAD     $16, Y3, Y3
	VPSUBD     Y1, Y0, Y0
	VPSUBD     Y3, Y2, Y2
	VPSRAD     $16, Y0, Y0
	VPSRAD     $16, Y2, Y2
	VPUNPCKHDQ Y1, Y0, Y4
	VPUNPCKLDQ Y1, Y0, Y0
	VPUNPCKHDQ Y3, Y2, Y5
	VPUNPCKLDQ Y3, Y2, Y2
	VCVTDQ2PS  Y0, Y0
	VCVTDQ2PS  Y4, Y4
	VCVTDQ2PS  Y2, Y2
	VCVTDQ2PS  Y5, Y5
	VMULPS     Y8, Y0, Y0
	VMULPS     Y8, Y4, Y4
	VMULPS     Y8, Y2, Y2
	VMULPS     Y8, Y5, Y5
	VMOVUPS    Y0, (DI)
	VMOVUPS    Y4, 32(DI)
	VMOVUPS    Y2, 64(DI)
	VMOVUPS    Y5, 96(DI)
	ADDQ       $64, SI
	ADDQ       $128, DI
	SUBQ       $32, CX
	JNZ        dequantisePairsLoop
	VZEROUPPER
	RET
