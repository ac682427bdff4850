package xla

import (
	"slices"

	"memopt/graph/hlo"
)

// inPlace lists the elements of a result that lie in operands.
func (p *Program) inPlace(in *hlo.Instruction) (out []hlo.OperandAlias) {
	switch in.Opcode {
	case "dynamic-update-slice":
		return []hlo.OperandAlias{{}}
	case "scatter", "all-reduce-start":
		n := len(in.Operands)
		if in.Opcode == "scatter" {
			n /= 2
		}
		if n <= 1 {
			return []hlo.OperandAlias{{}}
		}
		for i := range n {
			out = append(out, hlo.OperandAlias{Output: []int64{int64(i)}, Operand: int64(i)})
		}
	case "custom-call":
		return in.InPlace
	case "fusion":
		if len(in.Called) == 1 {
			out = p.fusedInPlace(in.Called[0])
		}
		out = slices.Concat(out, in.InPlace)
	}
	return out
}

// fusedInPlace follows each array of the result of a fusion's body to an instruction that works in place, and the
// operand of that one to a parameter.
func (p *Program) fusedInPlace(k int32) (out []hlo.OperandAlias) {
	if list, ok := p.written[k]; ok {
		return list
	}
	defer func() { p.written[k] = out }()
	c := p.Module.Computations[k]
	shape := &c.Instructions[c.Root].Shape
	leaves := [][]int64{nil}
	if len(shape.Tuple) > maxElements {
		return nil
	}
	if shape.IsTuple() {
		leaves = nil
		for i := range shape.Tuple {
			leaves = append(leaves, []int64{int64(i)})
		}
	}
	for _, leaf := range leaves {
		at, index := throughTuples(c, c.Root, leaf)
		in := &c.Instructions[at]
		if in.Opcode == "fusion" {
			continue // a fusion in a fusion: XLA makes no such thing
		}
		for _, x := range p.inPlace(in) {
			if !equalIndex(x.Output, index) || int(x.Operand) >= len(in.Operands) || x.Operand < 0 {
				continue
			}
			from, sub := throughTuples(c, in.Operands[x.Operand], x.Index)
			if param := &c.Instructions[from]; param.Opcode == "parameter" {
				out = append(out, hlo.OperandAlias{Output: leaf, Operand: param.Number, Index: sub})
			}
			break
		}
	}
	return out
}

// throughTuples follows an element back through tuples, then through get-tuple-elements.
func throughTuples(c *hlo.Computation, at int32, index []int64) (int32, []int64) {
	for range maxChain {
		in := &c.Instructions[at]
		if in.Opcode != "tuple" || len(index) == 0 || index[0] < 0 || index[0] >= int64(len(in.Operands)) {
			break
		}
		at, index = in.Operands[index[0]], index[1:]
	}
	for range maxChain {
		in := &c.Instructions[at]
		if in.Opcode != "get-tuple-element" || len(in.Operands) != 1 {
			break
		}
		at, index = in.Operands[0], append([]int64{in.Number}, index...)
	}
	return at, index
}

func equalIndex(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
