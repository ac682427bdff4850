//go:build !nodl

#include "textflag.h"
#include "go_asm.h"

// callMPI(c *call), in C's calling convention on a thread's own stack: fn(args...). All of args are
// passed: a function looks at as many as it has.
TEXT callMPI(SB), NOSPLIT, $32
	MOVQ DI, 24(SP)
	MOVQ DI, R11
	MOVQ (call_args+48)(R11), AX
	MOVQ AX, 0(SP)
	MOVQ (call_args+56)(R11), AX
	MOVQ AX, 8(SP)
	MOVQ (call_args+0)(R11), DI
	MOVQ (call_args+8)(R11), SI
	MOVQ (call_args+16)(R11), DX
	MOVQ (call_args+24)(R11), CX
	MOVQ (call_args+32)(R11), R8
	MOVQ (call_args+40)(R11), R9
	MOVQ call_fn(R11), R10
	XORL AX, AX
	CALL R10
	MOVQ 24(SP), DI
	MOVQ AX, call_result(DI)
	XORL AX, AX
	RET

GLOBL ·callMPIABI0(SB), NOPTR|RODATA, $8
DATA ·callMPIABI0(SB)/8, $callMPI(SB)
