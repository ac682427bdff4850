package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

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
