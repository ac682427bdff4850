package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// gridSampleRule: X [N, C, d1…dk] sampled at grid [N, e1…ek, k] gives [N, C, e1…ek].
func gridSampleRule(c *Ctx) {
	x, grid := c.Shape(0), c.Shape(1)
	if !c.rankFrom(0, 3) || !c.rankFrom(1, 3) || x.Ranked && !c.rankIn(1, len(x.Dims)) {
		return
	}
	out := graph.UnknownDims(max(x.Rank(), grid.Rank(), 0))
	if !x.Ranked && !grid.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	out.Dims[0] = c.Unify("the batch of data and grid", dimAt(x, 0), dimAt(grid, 0))
	out.Dims[1] = dimAt(x, 1)
	if grid.Ranked {
		copy(out.Dims[2:], grid.Dims[1:])
		c.Unify("the last dim of the grid", dimAt(grid, -1), symbolic.Const(int64(len(grid.Dims)-2)))
	}
	c.OutTensor(0, c.DType(0), out)
}

// gridSampleFLOPs: bilinear interpolation, two corners per axis and element, a product and a sum
// each.
func gridSampleFLOPs(c *Ctx) symbolic.Expr {
	axes := max(1, c.Shape(0).Rank()-2)
	return c.OutElements(0).Mul(symbolic.Const(2 << min(axes, 8)))
}
