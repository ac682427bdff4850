package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// matMulNBitsRule: A times the transpose of a weight of N rows and K columns, which is stored in so many
// bits a number; Y has the dims of A but for the last one, which is N.
func matMulNBitsRule(c *Ctx) {
	n, k := c.Int("N", 0), c.Int("K", 0)
	if n <= 0 || k <= 0 {
		c.Errorf("attributes N and K are %d and %d, wanted positive numbers", n, k)
		return
	}
	c.want(0, floats)
	a := c.Shape(0)
	if !a.Ranked {
		return
	}
	if len(a.Dims) == 0 {
		c.Errorf("input 0 is a scalar, wanted rows of %d numbers", k)
		return
	}
	last := len(a.Dims) - 1
	c.Unify("the last dim of input 0 and attribute K", a.Dims[last], symbolic.Const(k))
	if !c.Failed() {
		c.OutTensor(0, c.DType(0), with(a, last, symbolic.Const(n)))
	}
}

// matMulNBitsFLOPs: twice the output's elements times the length of the sums.
func matMulNBitsFLOPs(c *Ctx) symbolic.Expr {
	return mul(symbolic.Const(2), c.OutElements(0), symbolic.Const(max(c.Int("K", 0), 0)))
}

// gatherBlockQuantizedRule: slices of a tensor of few bits a number, as numbers of the scales' type.
// Data of uint8 hold several numbers in a byte, along the last axis.
func gatherBlockQuantizedRule(c *Ctx) {
	data, indices := c.Shape(0), c.Shape(1)
	if !data.Ranked || !indices.Ranked {
		return
	}
	axis, ok := c.Axis("attribute gather_axis", c.Int("gather_axis", 0), len(data.Dims))
	if !ok {
		return
	}
	whole := data
	if last := len(data.Dims) - 1; c.DType(0) == graph.Uint8 && last >= 0 {
		bits := c.Int("bits", 4)
		if bits != 2 && bits != 4 && bits != 8 {
			c.Errorf("attribute bits is %d, wanted 2, 4 or 8", bits)
			return
		}
		whole = with(data, last, mul(data.Dims[last], symbolic.Const(8/bits)))
	}
	dims := append([]symbolic.Expr(nil), whole.Dims[:axis]...)
	dims = append(dims, indices.Dims...)
	dims = append(dims, whole.Dims[axis+1:]...)
	c.OutTensor(0, c.DType(2), graph.Dims(dims...))
}
