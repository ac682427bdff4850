//go:build !nodl

#include "textflag.h"
#include "go_asm.h"

// run(call *invocation) int32, in C's calling convention on a thread's own stack:
// dnnl_memory_set_data_handle(args[i].memory, data[i]) for every operand, then
// dnnl_primitive_execute(primitive, stream, count, args). It returns the first status that is not 0.
// 0(SP) holds the argument and 8(SP) the operand's number, since calls keep no register of ours.
TEXT run(SB), NOSPLIT, $16
	MOVQ DI, 0(SP)
	MOVQ $0, 8(SP)

operand:
	MOVQ 0(SP), AX
	MOVQ 8(SP), CX
	CMPQ CX, invocation_count(AX)
	JGE  execute
	MOVQ invocation_data(AX)(CX*8), SI
	MOVQ invocation_args(AX), DX
	SHLQ $4, CX
	MOVQ executeArg_memory(DX)(CX*1), DI
	MOVQ invocation_setHandle(AX), R10
	CALL R10
	INCQ 8(SP)
	TESTL AX, AX
	JEQ  operand
	RET

execute:
	MOVQ invocation_primitive(AX), DI
	MOVQ invocation_stream(AX), SI
	MOVQ CX, DX
	MOVQ invocation_args(AX), CX
	MOVQ invocation_execute(AX), R10
	CALL R10
	RET

GLOBL ·runABI0(SB), NOPTR|RODATA, $8
DATA ·runABI0(SB)/8, $run(SB)
