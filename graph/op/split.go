package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// splitRule cuts an axis into parts: of the given sizes, or of equal ones. The sizes
// were an attribute in versions 2 and 11 and are input 1 in the others; from
// version 18 on num_outputs may cut unequally, the last part being smaller.
func splitRule(c *Ctx) {
	in := c.Shape(0)
	n := len(c.Node.Outputs)
	axis := c.Int("axis", 0)
	if c.Failed() {
		return
	}
	if !in.Ranked {
		for i := range n {
			c.OutTensor(i, c.DType(0), graph.Shape{})
		}
		return
	}
	at, ok := c.Axis("attribute axis", axis, len(in.Dims))
	if !ok {
		return
	}
	sizes := c.splitSizes(in.Dims[at], n)
	if c.Failed() {
		return
	}
	for i, d := range sizes {
		c.OutTensor(i, c.DType(0), with(in, at, d))
	}
	c.foldSplit(at, sizes)
}

// splitSizes returns the length of each part of an axis of length d.
func (c *Ctx) splitSizes(d symbolic.Expr, n int) []symbolic.Expr {
	var sizes []symbolic.Expr
	known := true
	list, given := c.IntList("split")
	if c.Version == 1 || c.Version >= 13 {
		if c.Has(1) {
			given = true
			sizes, known = c.Contents(1)
		} else if c.Version >= 13 {
			given = false
		}
	}
	if sizes == nil && given && known {
		sizes = constants(list)
	}
	switch {
	case !given:
		return c.equalParts(d, n)
	case !known:
		return unknowns(n)
	case len(sizes) != n:
		c.Errorf("has %d sizes and %d outputs", len(sizes), n)
		return nil
	}
	total, tok := symbolic.Sum(sizes...).Const()
	if have, ok := d.Const(); ok && tok && total != have {
		c.Errorf("the sizes add up to %d and the axis has length %d", total, have)
	}
	return sizes
}

// equalParts cuts an axis into n parts; before version 18 they must be equal.
func (c *Ctx) equalParts(d symbolic.Expr, n int) []symbolic.Expr {
	if c.Version >= 18 {
		return c.partsBelow(d, n)
	}
	if have, ok := d.Const(); ok && have%int64(n) != 0 {
		c.Errorf("an axis of length %d cannot be cut into %d equal parts", have, n)
		return nil
	}
	return slices.Repeat([]symbolic.Expr{divide(d, symbolic.Const(int64(n)))}, n)
}

// partsBelow cuts an axis as version 18 does: all parts but the last are the
// quotient rounded up.
func (c *Ctx) partsBelow(d symbolic.Expr, n int) []symbolic.Expr {
	if want := c.Int("num_outputs", int64(n)); want != int64(n) {
		c.Errorf("attribute num_outputs is %d and the node has %d outputs", want, n)
		return nil
	}
	k := symbolic.Const(int64(n))
	part, exact := d.ExactDiv(k)
	if !exact {
		part = d.CeilDiv(k)
	}
	sizes := slices.Repeat([]symbolic.Expr{part}, n)
	if !exact {
		sizes[n-1] = d.Sub(part.Mul(symbolic.Const(int64(n - 1))))
	}
	return sizes
}

// foldSplit deals out the elements of contents.
func (c *Ctx) foldSplit(at int, sizes []symbolic.Expr) {
	b, ok := c.block(0)
	if !ok {
		return
	}
	st, offset := strides(b.dims), 0
	for i, s := range sizes {
		n, ok := s.Const()
		if !ok || n < 0 || offset+int(n) > b.dims[at] {
			return
		}
		dims := slices.Clone(b.dims)
		dims[at] = int(n)
		part, ok := b.pick(dims, func(index []int) int {
			from := offset * st[at]
			for k, x := range index {
				from += x * st[k]
			}
			return from
		})
		if !ok {
			return
		}
		c.setBlock(i, part)
		offset += int(n)
	}
}
