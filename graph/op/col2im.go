package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

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
