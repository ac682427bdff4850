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

// roiAlignRule: X [N, C, H, W] and rois [R, 4] give [R, C, output_height, output_width].
func roiAlignRule(c *Ctx) {
	if !c.rankIn(0, 4) || !c.rankIn(1, 2) || !c.rankIn(2, 1) {
		return
	}
	h, w := c.Int("output_height", 1), c.Int("output_width", 1)
	if h < 1 || w < 1 {
		c.Errorf("output_height is %d and output_width %d, wanted at least 1", h, w)
		return
	}
	c.Unify("dim 1 of the regions", dimAt(c.Shape(1), 1), symbolic.Const(4))
	regions := c.Unify("the number of regions", dimAt(c.Shape(1), 0), dimAt(c.Shape(2), 0))
	c.OutTensor(0, c.DType(0), graph.Dims(regions, dimAt(c.Shape(0), 1), symbolic.Const(h), symbolic.Const(w)))
}

// maxRoiPoolRule: X [N, C, H, W] and rois [R, 5] give [R, C, pooled_shape…].
func maxRoiPoolRule(c *Ctx) {
	if !c.rankIn(0, 4) || !c.rankIn(1, 2) {
		return
	}
	pooled := c.listAttr("pooled_shape")
	if len(pooled) != 2 || pooled[0] < 1 || pooled[1] < 1 {
		c.Errorf("attribute pooled_shape is %v, wanted two numbers of at least 1", pooled)
		return
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dimAt(c.Shape(1), 0), dimAt(c.Shape(0), 1),
		symbolic.Const(pooled[0]), symbolic.Const(pooled[1])))
}

// nonMaxSuppressionRule: boxes [N, B, 4] and scores [N, classes, B] give the chosen boxes
// [?, 3]; how many is known only after the choice.
func nonMaxSuppressionRule(c *Ctx) {
	if !c.rankIn(0, 3) || !c.rankIn(1, 3) {
		return
	}
	c.Unify("the last dim of the boxes", dimAt(c.Shape(0), 2), symbolic.Const(4))
	c.OutTensor(0, graph.Int64, graph.Dims(symbolic.Unknown(), symbolic.Const(3)))
}

// col2ImRule: X [N, C·∏block, L], the image's spatial shape and the block's give [N, C, image…].
func col2ImRule(c *Ctx) {
	if !c.rankIn(0, 3) {
		return
	}
	image := c.shapeOperand(1)
	if c.Failed() {
		return
	}
	if !image.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	channels := symbolic.Unknown()
	if block, ok := c.Ints(2); ok {
		n := int64(1)
		for _, b := range block {
			if b < 1 || b > maxWindowInt || n > maxWindowInt {
				c.Errorf("input 2 is %v; a block's dims must be at least 1", block)
				return
			}
			n *= b
		}
		if len(block) != len(image.Dims) {
			c.Errorf("input 2 has %d elements, wanted %d, one per axis of the image", len(block), len(image.Dims))
			return
		}
		channels = c.divided("dim 1 of input 0", dimAt(c.Shape(0), 1), n)
	}
	dims := []symbolic.Expr{dimAt(c.Shape(0), 0), channels}
	c.OutTensor(0, c.DType(0), graph.Dims(append(dims, image.Dims...)...))
}

// windowFunctionRule: a scalar size gives a vector of that length.
func windowFunctionRule(c *Ctx) {
	if !c.rankIn(0, 0, 1) {
		return
	}
	size := symbolic.Unknown()
	if e, ok := c.Contents(0); ok && len(e) == 1 {
		size = e[0]
	}
	if n, ok := size.Const(); ok && n < 0 {
		c.Errorf("input 0 is %d; the size of a window cannot be negative", n)
		return
	}
	c.OutTensor(0, c.DTypeAttr("output_datatype", graph.Float32), graph.Dims(size))
}

// gridSampleFLOPs: bilinear interpolation, two corners per axis and element, a product and a sum
// each.
func gridSampleFLOPs(c *Ctx) symbolic.Expr {
	axes := max(1, c.Shape(0).Rank()-2)
	return c.OutElements(0).Mul(symbolic.Const(2 << min(axes, 8)))
}
