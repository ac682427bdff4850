package cpu

import (
	"memopt/graph/op"
	"memopt/train/collective"
)

// rankRows: collective operations of the ranks of a job.
var rankRows = []Row{
	{Kind: op.AllGatherStart, New: newStart(collective.AllGather)},
	{Kind: op.AllReduceStart, New: newStart(collective.AllReduce)},
	{Kind: op.CollectiveWait, New: newWait},
	{Kind: op.RankPiece, New: newPiece},
	{Kind: op.ReduceScatterStart, New: newStart(collective.ReduceScatter)},
	{Kind: op.Unpack, New: newUnpack},
}

// compiledRows: instructions of compiled programs.
var compiledRows = []Row{
	{Kind: op.Instruction, Why: ofPrograms},
	{Kind: op.InstructionInPlace, Why: ofPrograms},
	{Kind: op.InstructionOnce, Why: ofPrograms},
	{Kind: op.InstructionOnceInPlace, Why: ofPrograms},
}

const ofPrograms = "it is an instruction of a compiled program, which is planned and not executed"
