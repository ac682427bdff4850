#include "textflag.h"

// The order of groups of four bytes that packing eight lanes at a time leaves, put right.
DATA packOrder<>+0(SB)/4, $0
DATA packOrder<>+4(SB)/4, $4
DATA packOrder<>+8(SB)/4, $1
DATA packOrder<>+12(SB)/4, $5
DATA packOrder<>+16(SB)/4, $2
DATA packOrder<>+20(SB)/4, $6
DATA packOrder<>+24(SB)/4, $3
DATA packOrder<>+28(SB)/4, $7
GLOBL packOrder<>(SB), RODATA|NOPTR, $32

DATA packOne<>+0(SB)/1, $1
GLOBL packOne<>(SB), RODATA|NOPTR, $1

// func keepWordsWide(words *uint32, n int, threshold uint32)
// A word is at least the threshold where it is the larger of the two.
TEXT ·keepWordsWide(SB), NOSPLIT, $0-20
	MOVQ         words+0(FP), DI
	MOVQ         n+8(FP), CX
	MOVL         threshold+16(FP), AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0
keepLoop:
	VMOVDQU  (DI), Y1
	VMOVDQU  32(DI), Y2
	VPMAXUD  Y0, Y1, Y3
	VPMAXUD  Y0, Y2, Y4
	VPCMPEQD Y1, Y3, Y1
	VPCMPEQD Y2, Y4, Y2
	VMOVDQU  Y1, (DI)
	VMOVDQU  Y2, 32(DI)
	ADDQ     $64, DI
	SUBQ     $16, CX
	JNZ      keepLoop
	VZEROUPPER
	RET

// func selectScaledWide(y, x *float32, keep *uint32, n int, scale float32)
TEXT ·selectScaledWide(SB), NOSPLIT, $0-36
	MOVQ         y+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         keep+16(FP), DX
	MOVQ         n+24(FP), CX
	VBROADCASTSS scale+32(FP), Y0
selectLoop:
	VMULPS  (SI), Y0, Y1
	VMULPS  32(SI), Y0, Y2
	VANDPS  (DX), Y1, Y1
	VANDPS  32(DX), Y2, Y2
	VMOVUPS Y1, (DI)
	VMOVUPS Y2, 32(DI)
	ADDQ    $64, DI
	ADDQ    $64, SI
	ADDQ    $64, DX
	SUBQ    $16, CX
	JNZ     selectLoop
	VZEROUPPER
	RET

// func packBytesWide(dst *uint8, keep *uint32, n int)
TEXT ·packBytesWide(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         keep+8(FP), SI
	MOVQ         n+16(FP), CX
	VMOVDQU      packOrder<>(SB), Y0
	VPBROADCASTB packOne<>(SB), Y1
packBytesLoop:
	VMOVDQU   (SI), Y2
	VPACKSSDW 32(SI), Y2, Y2
	VMOVDQU   64(SI), Y3
	VPACKSSDW 96(SI), Y3, Y3
	VPACKSSWB Y3, Y2, Y2
	VPERMD    Y2, Y0, Y2
	VPAND     Y1, Y2, Y2
	VMOVDQU   Y2, (DI)
	ADDQ      $128, SI
	ADDQ      $32, DI
	SUBQ      $32, CX
	JNZ       packBytesLoop
	VZEROUPPER
	RET

// func unpackBytesWide(keep *uint32, src *uint8, n int)
TEXT ·unpackBytesWide(SB), NOSPLIT, $0-24
	MOVQ         keep+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         n+16(FP), CX
	VPXOR        Y0, Y0, Y0
	VPCMPEQD     Y1, Y1, Y1
	VPSRLD       $31, Y1, Y1
unpackBytesLoop:
	VPMOVZXBD (SI), Y2
	VPMOVZXBD 8(SI), Y3
	VPAND     Y1, Y2, Y2
	VPAND     Y1, Y3, Y3
	VPSUBD    Y2, Y0, Y2
	VPSUBD    Y3, Y0, Y3
	VMOVDQU   Y2, (DI)
	VMOVDQU   Y3, 32(DI)
	ADDQ      $16, SI
	ADDQ      $64, DI
	SUBQ      $16, CX
	JNZ       unpackBytesLoop
	VZEROUPPER
	RET

// func packBitsWide(dst, keep *uint32, n int)
TEXT ·packBitsWide(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ keep+8(FP), SI
	MOVQ n+16(FP), CX
packBitsLoop:
	VMOVDQU   (SI), Y0
	VPACKSSDW 32(SI), Y0, Y0
	VMOVDQU   64(SI), Y1
	VPACKSSDW 96(SI), Y1, Y1
	VPACKSSWB Y1, Y0, Y0
	VMOVDQU   packOrder<>(SB), Y2
	VPERMD    Y0, Y2, Y0
	VPMOVMSKB Y0, AX
	MOVL      AX, (DI)
	ADDQ      $128, SI
	ADDQ      $4, DI
	SUBQ      $32, CX
	JNZ       packBitsLoop
	VZEROUPPER
	RET
