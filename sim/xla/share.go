package xla

import (
	"slices"

	"memopt/graph/hlo"
)

// elementwise are the opcodes whose results have, at each place, a number that depends on those at the same place of
// operands of the same shape (HloInstruction::IsElementwiseImpl).
var elementwise = map[string]bool{"abs": true, "add": true, "and": true, "atan2": true, "bitcast-convert": true,
	"cbrt": true, "ceil": true, "clamp": true, "compare": true, "complex": true, "convert": true, "copy": true,
	"cosine": true, "count-leading-zeros": true, "divide": true, "erf": true, "exponential": true,
	"exponential-minus-one": true, "floor": true, "imag": true, "is-finite": true, "log": true, "log-plus-one": true,
	"logistic": true, "map": true, "maximum": true, "minimum": true, "multiply": true, "negate": true, "not": true,
	"or": true, "popcnt": true, "power": true, "real": true, "reduce-precision": true, "remainder": true,
	"round-nearest-afz": true, "round-nearest-even": true, "rsqrt": true, "select": true, "shift-left": true,
	"shift-right-arithmetic": true, "shift-right-logical": true, "sign": true, "sine": true, "sqrt": true,
	"stochastic-convert": true, "subtract": true, "tan": true, "tanh": true, "xor": true}

// mayShare reports whether an instruction may write its result, or the element of it that index names, where operand o
// lies, if no later step reads that (HloDataflowAnalysis::CanShareOperandBufferWithUser).
func (p *Program) mayShare(c *hlo.Computation, in *hlo.Instruction, o int, index []int64) bool {
	of := &c.Instructions[in.Operands[o]]
	if of.Opcode == "constant" {
		return false
	}
	_, shape, err := p.layout.within(&in.Shape, index)
	if err != nil || !shape.Equal(&of.Shape) {
		return false
	}
	for _, x := range p.inPlace(in) {
		if x.Operand == int64(o) && equalIndex(x.Output, index) && len(x.Index) == 0 {
			return true
		}
	}
	switch in.Opcode {
	case "fusion":
		return (in.Kind == "kLoop" || in.Kind == "kInput") && len(in.Called) == 1 &&
			p.throughElementwise(p.Module.Computations[in.Called[0]], o)
	case "triangular-solve":
		return o == 1 && count(in.Operands, in.Operands[o]) == 1
	case "sort":
		return len(in.Operands) == 1 || len(index) == 1 && index[0] == int64(o)
	}
	return elementwise[in.Opcode]
}

// leavesAlike are the values that a step reads through an operand that is fused into it, and may write over as it goes.
func (s *Step) leavesAlike(operand int32) (out []int32) {
	in := s.In()
	if !s.frame.isFused(operand) || !elementwise[in.Opcode] || !s.frame.fused.same[operand] {
		return nil
	}
	for _, l := range s.frame.leaves(operand) {
		of := &s.Computation.Instructions[l]
		if of.Opcode != "constant" && of.Shape.Equal(&in.Shape) {
			out = append(out, l)
		}
	}
	return out
}

func count(list []int32, x int32) (n int) {
	for _, y := range list {
		if x == y {
			n++
		}
	}
	return n
}

// throughElementwise reports whether a parameter of a fusion reaches the result through elementwise instructions and
// tuples alone.
func (p *Program) throughElementwise(c *hlo.Computation, number int) bool {
	through, ok := p.fused[c]
	if !ok {
		through = make([]bool, len(c.Instructions)) // by instruction, then by parameter
		for i := range through {
			through[i] = true
		}
		for i, in := range slices.Backward(c.Instructions) {
			for _, o := range in.Operands {
				through[o] = through[o] && through[i] && (elementwise[in.Opcode] || in.Opcode == "tuple")
			}
		}
		byNumber := make([]bool, len(c.Instructions))
		for i, in := range c.Instructions {
			if in.Opcode == "parameter" && in.Number >= 0 && in.Number < int64(len(byNumber)) {
				byNumber[in.Number] = through[i]
			}
		}
		through = byNumber
		p.fused[c] = through
	}
	return number < len(through) && through[number]
}
