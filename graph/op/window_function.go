package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

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
