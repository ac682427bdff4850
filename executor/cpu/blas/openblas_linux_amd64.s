//go:build !nodl

#include "textflag.h"
#include "go_asm.h"

// gemmCall(args *call), in C's calling convention on a thread's own stack:
// XGEMM(TRANSA, TRANSB, M, N, K, ALPHA, A, LDA, B, LDB, BETA, C, LDC), all by address, followed by
// the lengths of the two strings, as compiled Fortran takes them.
TEXT gemmCall(SB), NOSPLIT, $80
	MOVQ DI, R11

	MOVQ call_a(R11), AX
	MOVQ AX, 0(SP)
	LEAQ call_lda(R11), AX
	MOVQ AX, 8(SP)
	MOVQ call_b(R11), AX
	MOVQ AX, 16(SP)
	LEAQ call_ldb(R11), AX
	MOVQ AX, 24(SP)
	MOVQ call_beta(R11), AX
	MOVQ AX, 32(SP)
	MOVQ call_c(R11), AX
	MOVQ AX, 40(SP)
	LEAQ call_ldc(R11), AX
	MOVQ AX, 48(SP)
	MOVQ $1, 56(SP)
	MOVQ $1, 64(SP)

	LEAQ call_transA(R11), DI
	LEAQ call_transB(R11), SI
	LEAQ call_m(R11), DX
	LEAQ call_n(R11), CX
	LEAQ call_k(R11), R8
	MOVQ call_alpha(R11), R9

	MOVQ call_fn(R11), R10
	XORL AX, AX
	CALL R10
	XORL AX, AX
	RET

GLOBL ·gemmCallABI0(SB), NOPTR|RODATA, $8
DATA ·gemmCallABI0(SB)/8, $gemmCall(SB)
