//go:build !nodl

#include "textflag.h"
#include "go_asm.h"

// enter(c *call), in C's calling convention on a thread's own stack: pre(ctx) where there is one, and, unless it
// fails, fn(args...). All of args are passed: a function looks at as many as it has.
TEXT enter(SB), NOSPLIT, $160
	MOVQ DI, 152(SP)
	MOVQ call_pre(DI), R10
	TESTQ R10, R10
	JZ   main
	MOVQ call_ctx(DI), DI
	XORL AX, AX
	CALL R10
	MOVQ 152(SP), DI
	TESTL AX, AX
	JNZ  done

main:
	MOVQ DI, R11
	MOVQ (call_args+48)(R11), AX
	MOVQ AX, 0(SP)
	MOVQ (call_args+56)(R11), AX
	MOVQ AX, 8(SP)
	MOVQ (call_args+64)(R11), AX
	MOVQ AX, 16(SP)
	MOVQ (call_args+72)(R11), AX
	MOVQ AX, 24(SP)
	MOVQ (call_args+80)(R11), AX
	MOVQ AX, 32(SP)
	MOVQ (call_args+88)(R11), AX
	MOVQ AX, 40(SP)
	MOVQ (call_args+96)(R11), AX
	MOVQ AX, 48(SP)
	MOVQ (call_args+104)(R11), AX
	MOVQ AX, 56(SP)
	MOVQ (call_args+112)(R11), AX
	MOVQ AX, 64(SP)
	MOVQ (call_args+120)(R11), AX
	MOVQ AX, 72(SP)
	MOVQ (call_args+128)(R11), AX
	MOVQ AX, 80(SP)
	MOVQ (call_args+136)(R11), AX
	MOVQ AX, 88(SP)
	MOVQ (call_args+144)(R11), AX
	MOVQ AX, 96(SP)
	MOVQ (call_args+152)(R11), AX
	MOVQ AX, 104(SP)
	MOVQ (call_args+160)(R11), AX
	MOVQ AX, 112(SP)
	MOVQ (call_args+168)(R11), AX
	MOVQ AX, 120(SP)
	MOVQ (call_args+176)(R11), AX
	MOVQ AX, 128(SP)
	MOVQ (call_args+184)(R11), AX
	MOVQ AX, 136(SP)
	MOVQ (call_args+0)(R11), DI
	MOVQ (call_args+8)(R11), SI
	MOVQ (call_args+16)(R11), DX
	MOVQ (call_args+24)(R11), CX
	MOVQ (call_args+32)(R11), R8
	MOVQ (call_args+40)(R11), R9
	MOVQ call_fn(R11), R10
	XORL AX, AX
	CALL R10

done:
	MOVQ 152(SP), DI
	MOVQ AX, call_result(DI)
	XORL AX, AX
	RET

GLOBL ·enterABI0(SB), NOPTR|RODATA, $8
DATA ·enterABI0(SB)/8, $enter(SB)
