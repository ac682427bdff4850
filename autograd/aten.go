package autograd

import (
	"strings"

	"memopt/graph"
)

// atenRule: of PyTorch's operators only embedding has a rule: that of Gather, with no gradient for
// the padding row. Stashes the indices.
func atenRule(c *Ctx) {
	name := strings.TrimPrefix(c.Node.Str("operator", ""), "aten::")
	if name != "embedding" {
		c.Unsupported("PyTorch's operator %q", name)
	}
	if !c.Wants(0) {
		return
	}
	if byCount, ok := c.oneInt(3, 0); !ok || byCount != 0 {
		c.Unsupported("scale_grad_by_freq")
	}
	padding, ok := c.oneInt(2, -1)
	if !ok {
		c.Unsupported("its padding_idx is not known before the run")
	}
	x := c.In(0)
	dx := c.ungather(c.Grad(0), x, c.In(1), 0)
	if padding >= 0 {
		rest := c.vector(append([]extent{number(1)}, c.extentsOf(x, 1)...))
		at := c.j.constant(graph.Int64Tensor("", []int64{1, 1}, padding))
		dx = c.scatterND(dx, at, c.zerosOf(rest, dx), false)
	}
	c.Set(0, dx)
}

// oneInt reads an input of one element, or the default where it is left out.
func (c *Ctx) oneInt(i int, def int64) (int64, bool) {
	if !c.Has(i) {
		return def, true
	}
	ints, ok := c.intsOf(c.In(i))
	if !ok || len(ints) != 1 {
		return 0, false
	}
	return ints[0], true
}
