#include "go_asm.h"
#include "textflag.h"

// Lanes of 64 bits hold a block each, and two groups of four blocks are worked on side by side.
// Only the low half of a lane counts; the high half may hold anything until the end.

DATA philoxM0<>+0(SB)/8, $0xD2511F53
GLOBL philoxM0<>(SB), RODATA|NOPTR, $8
DATA philoxM1<>+0(SB)/8, $0xCD9E8D57
GLOBL philoxM1<>(SB), RODATA|NOPTR, $8

DATA philoxW0<>+0(SB)/8, $0x9E3779B9
DATA philoxW0<>+8(SB)/8, $0x9E3779B9
DATA philoxW0<>+16(SB)/8, $0x9E3779B9
DATA philoxW0<>+24(SB)/8, $0x9E3779B9
GLOBL philoxW0<>(SB), RODATA|NOPTR, $32
DATA philoxW1<>+0(SB)/8, $0xBB67AE85
DATA philoxW1<>+8(SB)/8, $0xBB67AE85
DATA philoxW1<>+16(SB)/8, $0xBB67AE85
DATA philoxW1<>+24(SB)/8, $0xBB67AE85
GLOBL philoxW1<>(SB), RODATA|NOPTR, $32

DATA philoxLanes<>+0(SB)/8, $0
DATA philoxLanes<>+8(SB)/8, $1
DATA philoxLanes<>+16(SB)/8, $2
DATA philoxLanes<>+24(SB)/8, $3
DATA philoxLanes<>+32(SB)/8, $4
DATA philoxLanes<>+40(SB)/8, $5
DATA philoxLanes<>+48(SB)/8, $6
DATA philoxLanes<>+56(SB)/8, $7
GLOBL philoxLanes<>(SB), RODATA|NOPTR, $64

// ROUND replaces c0 and c2, and leaves the new c1 in t1 and the new c3 in t0.
#define ROUND(c0, c1, c2, c3, t0, t1) \
	VPMULUDQ Y12, c0, t0  \
	VPMULUDQ Y13, c2, t1  \
	VPXOR    Y14, c1, c1  \
	VPXOR    Y15, c3, c3  \
	VPSRLQ   $32, t1, c0  \
	VPSRLQ   $32, t0, c2  \
	VPXOR    c1, c0, c0   \
	VPXOR    c3, c2, c2

#define BUMP \
	VPADDD philoxW0<>(SB), Y14, Y14 \
	VPADDD philoxW1<>(SB), Y15, Y15

// TWO is two rounds of both groups, after which everything is where it was.
#define TWO \
	ROUND(Y0, Y2, Y1, Y3, Y4, Y5)   \
	ROUND(Y6, Y8, Y7, Y9, Y10, Y11) \
	BUMP                            \
	ROUND(Y0, Y5, Y1, Y4, Y3, Y2)   \
	ROUND(Y6, Y11, Y7, Y10, Y9, Y8)

// STORE writes the four blocks of a group, word after word.
#define STORE(c0, c1, c2, c3, t, at) \
	VPSLLQ      $32, c1, c1         \
	VPSLLQ      $32, c3, c3         \
	VPBLENDD    $0xAA, c1, c0, c0   \
	VPBLENDD    $0xAA, c3, c2, c2   \
	VPUNPCKLQDQ c2, c0, c1          \
	VPUNPCKHQDQ c2, c0, c3          \
	VPERM2I128  $0x20, c3, c1, t    \
	VMOVDQU     t, at(DI)           \
	VPERM2I128  $0x31, c3, c1, t    \
	VMOVDQU     t, (at+32)(DI)

// func philoxBlocks(dst *uint32, n int, first uint64, s *philoxStream)
TEXT ·philoxBlocks(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ n+8(FP), CX
	MOVQ first+16(FP), AX
	MOVQ s+24(FP), SI
	VPBROADCASTQ philoxM0<>(SB), Y12
	VPBROADCASTQ philoxM1<>(SB), Y13
	TESTQ CX, CX
	JZ    done

loop:
	VPBROADCASTD philoxStream_k0(SI), Y14
	VPBROADCASTD philoxStream_k1(SI), Y15
	VMOVQ        AX, X0
	VPBROADCASTQ X0, Y0
	VPADDQ       philoxLanes<>+32(SB), Y0, Y6
	VPADDQ       philoxLanes<>+0(SB), Y0, Y0
	VPSRLQ       $32, Y0, Y2
	VPSRLQ       $32, Y6, Y8
	VPBROADCASTD philoxStream_step(SI), Y1
	VPBROADCASTD philoxStream_stream(SI), Y3
	VMOVDQA      Y1, Y7
	VMOVDQA      Y3, Y9
	TWO
	BUMP
	TWO
	BUMP
	TWO
	BUMP
	TWO
	BUMP
	TWO
	STORE(Y0, Y2, Y1, Y3, Y4, 0)
	STORE(Y6, Y8, Y7, Y9, Y10, 64)
	ADDQ $128, DI
	ADDQ $8, AX
	DECQ CX
	JNZ  loop

done:
	VZEROUPPER
	RET
