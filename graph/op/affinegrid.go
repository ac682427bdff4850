package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// affineGridRule: theta [N, 2, 3] or [N, 3, 4] and size (N, C, spatial…) give a grid
// [N, spatial…, 2 or 3].
func affineGridRule(c *Ctx) {
	if !c.rankIn(0, 3) {
		return
	}
	size := c.shapeOperand(1)
	if c.Failed() {
		return
	}
	axes := dimAt(c.Shape(0), 1)
	if size.Ranked {
		if n := len(size.Dims); n != 4 && n != 5 {
			c.Errorf("input 1 has %d elements, wanted 4 (N, C, H, W) or 5 (N, C, D, H, W)", n)
			return
		}
		want := symbolic.Const(int64(len(size.Dims) - 2))
		c.Unify("dim 1 of input 0 and the number of spatial axes", axes, want)
		dims := append([]symbolic.Expr{size.Dims[0]}, size.Dims[2:]...)
		c.OutTensor(0, c.DType(0), graph.Dims(append(dims, want)...))
		return
	}
	c.OutTensor(0, c.DType(0), graph.Shape{})
}
