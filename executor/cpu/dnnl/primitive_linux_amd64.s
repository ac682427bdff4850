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

// sgemm(call *sgemmCall) int32, in C's calling convention on a thread's own stack:
// dnnl_sgemm(transA, transB, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc), which returns a status.
TEXT sgemm(SB), NOSPLIT, $48
	MOVQ DI, R11
	MOVQ sgemmCall_lda(R11), AX
	MOVQ AX, 0(SP)
	MOVQ sgemmCall_b(R11), AX
	MOVQ AX, 8(SP)
	MOVQ sgemmCall_ldb(R11), AX
	MOVQ AX, 16(SP)
	MOVQ sgemmCall_c(R11), AX
	MOVQ AX, 24(SP)
	MOVQ sgemmCall_ldc(R11), AX
	MOVQ AX, 32(SP)
	MOVQ sgemmCall_transA(R11), DI
	MOVQ sgemmCall_transB(R11), SI
	MOVQ sgemmCall_m(R11), DX
	MOVQ sgemmCall_n(R11), CX
	MOVQ sgemmCall_k(R11), R8
	MOVQ sgemmCall_a(R11), R9
	MOVSS sgemmCall_alpha(R11), X0
	MOVSS sgemmCall_beta(R11), X1
	MOVQ sgemmCall_fn(R11), R10
	CALL R10
	RET

GLOBL ·sgemmABI0(SB), NOPTR|RODATA, $8
DATA ·sgemmABI0(SB)/8, $sgemm(SB)
