package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// normOperand is a scale or bias of a norm over the last axes: a row of n elements for each row of
// the input; usually all rows share one.
type normOperand[T normElem] struct {
	data []T // nil if left out
	step int // 0 means one row for all
	n    int
}

// row returns the elements for row i, or nil if the operand is left out.
func (o *normOperand[T]) row(i int) []T {
	if o.data == nil {
		return nil
	}
	return o.data[i*o.step : i*o.step+o.n]
}

// normOperandFits reports whether an operand is one row of the elements from axis on.
func normOperandFits(operand, shape []int, axis int) bool {
	for i := range shape {
		d := normDim(operand, shape, i)
		if i < axis && d != 1 || i >= axis && d != shape[i] {
			return false
		}
	}
	return true
}

// normDim returns the operand's dim that stands for dim i of the shape.
func normDim(operand, shape []int, i int) int {
	if j := i - (len(shape) - len(operand)); j >= 0 {
		return operand[j]
	}
	return 1
}

// normOperandSpace returns the workspace for an operand that must be stretched to the input.
func normOperandSpace(in [][]int, i, axis int) int {
	if i >= len(in) || in[i] == nil || len(in[0]) == 0 || normOperandFits(in[i], in[0], (axis+len(in[0]))%len(in[0])) {
		return 0
	}
	return executor.RoundUp(8 * product(in[0]))
}

// read gets input i for an input of the given shape that is normalised from axis on. A shape that
// is not one row is stretched, in workspace.
func (o *normOperand[T]) read(c *executor.Ctx, i int, what string, shape []int, axis int) error {
	t := c.In(i)
	*o = normOperand[T]{n: product(shape[axis:])}
	if t == nil {
		return nil
	}
	bad := t.Rank() > len(shape)
	for j := 0; j < len(shape) && !bad; j++ {
		d := normDim(t.Shape, shape, j)
		bad = d != 1 && d != shape[j]
	}
	if bad {
		return c.Errorf("input %d, the %s, has shape %v, which cannot be stretched to %v", i, what, t.Shape, shape)
	}
	o.data = normWide[T](c, i)
	if normOperandFits(t.Shape, shape, axis) {
		return nil
	}
	src := o.data
	o.data, o.step = executor.ScratchOf[T](c, product(shape)), o.n
	for at := range o.data {
		from, step, rest := 0, 1, at
		for j := len(shape) - 1; j >= 0; j-- {
			if d := normDim(t.Shape, shape, j); d != 1 {
				from += rest % shape[j] * step
				step *= d
			}
			rest /= shape[j]
		}
		o.data[at] = src[from]
	}
	return nil
}

// normTypes reports whether the operands of a norm can all be computed in one type, that of input
// 0; statistics, inputs from statIn and outputs from statOut on, may be float or double in any
// case.
func normTypes(p *executor.Prep, statIn, statOut int) bool {
	want := normAccumulates(p.DType(0))
	fits := func(d graph.DType, stat bool) bool {
		return d == graph.Undefined || normAccumulates(d) == want || stat && normFloat(d)
	}
	for i, d := range p.In {
		if !fits(d, i >= statIn) {
			return false
		}
	}
	for i, d := range p.Out {
		if !fits(d, i >= statOut) {
			return false
		}
	}
	return true
}
