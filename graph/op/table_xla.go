package op

// Domains of instructions: see xlaRows.
const (
	DomainXLA            = "xla"
	DomainXLAInPlace     = "xla.inplace"
	DomainXLAOnce        = "xla.once"
	DomainXLAOnceInPlace = "xla.once.inplace"
)

// FLOPsAttr is the attribute of an instruction with its floating-point operations.
const FLOPsAttr = "flops"

// xlaRows are the instructions of a program that XLA compiled (package sim/xla), whose values are runs of bytes. They
// are planned and not executed. A node's name is the instruction's opcode, and its domain says the properties that a
// plan needs: in-place ones may write their first output over their first input; once ones run no second time, for
// example those in the body of a loop.
var xlaRows = []Info{
	instruction(Instruction, "Instruction", DomainXLA, Cheap),
	instruction(InstructionInPlace, "InstructionInPlace", DomainXLAInPlace, Cheap, inPlace(0)),
	instruction(InstructionOnce, "InstructionOnce", DomainXLAOnce, Never),
	instruction(InstructionOnceInPlace, "InstructionOnceInPlace", DomainXLAOnceInPlace, Never, inPlace(0)),
}
