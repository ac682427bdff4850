package xla

import (
	"slices"

	"memopt/graph/hlo"
)

// maxLeaves bounds the values that a fusion reads: a kernel has that many parameters
// (xla/service/gpu/gpu_fusible.h, MaxOperandsAndOutputsPerFusion).
const maxLeaves = 96

// moving are the opcodes that put elements elsewhere; with the elementwise ones, those that a loop computes one element
// at a time at its reader's request (CpuInstructionFusion, CanBeLoopFused).
var moving = map[string]bool{"broadcast": true, "concatenate": true, "dynamic-slice": true, "iota": true, "pad": true,
	"reshape": true, "reverse": true, "slice": true, "transpose": true}

// expensive are the elementwise opcodes that no fusion computes twice (InstructionFusion::IsExpensive).
var expensive = map[string]bool{"atan2": true, "cbrt": true, "cosine": true, "divide": true, "erf": true,
	"exponential": true, "exponential-minus-one": true, "log": true, "log-plus-one": true, "logistic": true,
	"map": true, "power": true, "remainder": true, "rsqrt": true, "sine": true, "sqrt": true, "tan": true, "tanh": true}

// fusion is the part of a computation that XLA's fusions compute without storing it.
type fusion struct {
	// leaves has, by instruction that is not stored, the stored values that its readers read in its place; nil of one
	// that is stored.
	leaves [][]int32
	// same marks those that have, at each place, a number of the leaves' same place.
	same []bool
}

// fuse finds the instructions that are computed in their readers: all of these are loops, and either there is one, or
// the instruction is cheap and has at most one large operand, so that to compute it again reads no more than to load it
// (xla/service/instruction_fusion.cc, ComputeGloballyUnfusible).
func fuse(c *hlo.Computation) *fusion {
	users := make([][]int32, len(c.Instructions))
	for i := range c.Instructions {
		for _, o := range c.Instructions[i].Operands {
			if list := users[o]; len(list) == 0 || list[len(list)-1] != int32(i) {
				users[o] = append(list, int32(i))
			}
		}
	}
	f := &fusion{leaves: make([][]int32, len(c.Instructions)), same: make([]bool, len(c.Instructions))}
	for i := range c.Instructions {
		in := &c.Instructions[i]
		if int32(i) == c.Root || len(users[i]) == 0 || !elementwise[in.Opcode] && !moving[in.Opcode] ||
			in.Shape.IsTuple() || crosses(c, in) || len(users[i]) > 1 && (expensive[in.Opcode] || f.large(c, in) > 1) ||
			slices.ContainsFunc(users[i], func(u int32) bool { return !takes(&c.Instructions[u], in, int32(i)) }) {
			continue
		}
		leaves := []int32{}
		same := elementwise[in.Opcode]
		for _, o := range in.Operands {
			if f.leaves[o] == nil {
				leaves = append(leaves, o)
				continue
			}
			leaves = append(leaves, f.leaves[o]...)
			same = same && f.same[o]
		}
		slices.Sort(leaves)
		if leaves = slices.Compact(leaves); len(leaves) <= maxLeaves {
			f.leaves[i], f.same[i] = leaves, same
		}
	}
	return f
}

// large counts the operands that are no smaller than the result.
func (f *fusion) large(c *hlo.Computation, in *hlo.Instruction) (n int) {
	for _, o := range in.Operands {
		of := &c.Instructions[o]
		if of.Opcode != "constant" && of.Opcode != "iota" && of.Opcode != "broadcast" && len(of.Shape.Dims) > 0 {
			n++
		}
	}
	return n
}

// crosses reports whether an instruction copies from one memory to another.
func crosses(c *hlo.Computation, in *hlo.Instruction) bool {
	return len(in.Operands) > 0 && c.Instructions[in.Operands[0]].Shape.Space != in.Shape.Space
}

// takes reports whether an instruction computes operand o as it goes.
func takes(in, operand *hlo.Instruction, o int32) bool {
	switch in.Opcode {
	case "dot":
		return operand.Opcode == "transpose" // the dims of a dot say as much
	case "dynamic-update-slice":
		return len(in.Operands) > 1 && in.Operands[0] != o
	case "reduce":
		return true
	}
	return elementwise[in.Opcode] || moving[in.Opcode]
}
