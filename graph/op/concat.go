package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// concatRule adds up the dims along one axis; the others must be equal.
func concatRule(c *Ctx) {
	slots := make([]int, len(c.Node.Inputs))
	for i := range slots {
		slots[i] = i
	}
	dtype := c.sameTypes(slots...)
	axis := c.concatAxis()
	rank := c.commonRank()
	if c.Failed() {
		return
	}
	if rank < 0 {
		c.OutTensor(0, dtype, graph.Shape{})
		return
	}
	at, ok := c.Axis("attribute axis", axis, rank)
	if !ok {
		return
	}
	dims := c.joined(at, rank)
	if c.Failed() {
		return
	}
	c.OutTensor(0, dtype, graph.Dims(dims...))
	c.foldConcat(at)
}

// concatAxis reads the axis, which had a default before version 4.
func (c *Ctx) concatAxis() int64 {
	if c.Version < 4 {
		return c.Int("axis", 1)
	}
	return c.NeedInt("axis")
}

// commonRank returns the rank that all inputs share, or -1 if no input has a known rank.
func (c *Ctx) commonRank() int {
	rank, first := -1, 0
	for i := range c.Node.Inputs {
		r := c.Shape(i).Rank()
		switch {
		case r < 0:
		case rank < 0:
			rank, first = r, i
		case r != rank:
			c.Errorf("input %d has shape %v and input %d has shape %v; their ranks must be equal",
				first, c.Shape(first), i, c.Shape(i))
		}
	}
	return rank
}

// joined returns the dims of the inputs put together along an axis.
func (c *Ctx) joined(at, rank int) []symbolic.Expr {
	dims := unknowns(rank)
	along := make([]symbolic.Expr, 0, len(c.Node.Inputs))
	for i := range c.Node.Inputs {
		s := c.Shape(i)
		if !s.Ranked {
			along = append(along, symbolic.Unknown())
			continue
		}
		for k, d := range s.Dims {
			if k == at {
				along = append(along, d)
			} else {
				dims[k] = c.Unify("dims besides the axis", dims[k], d)
			}
		}
	}
	dims[at] = symbolic.Sum(along...)
	return dims
}

// foldConcat joins contents. If only some parts of a list are known, their elements are kept and
// the others' are unknown.
func (c *Ctx) foldConcat(at int) {
	if c.Node.Output(0) == graph.NoValue {
		return
	}
	parts := make([]block, len(c.Node.Inputs))
	den, some := int64(1), false
	for i := range parts {
		b, ok := c.block(i)
		if !ok {
			if b, ok = c.unknownBlock(i); !ok {
				return
			}
		} else {
			some = true
		}
		if den, ok = commonDen(den, b.den); !ok {
			return
		}
		parts[i] = b
	}
	if !some {
		return
	}
	if out, ok := join(parts, at, den); ok {
		c.setBlock(0, out)
	}
}

// unknownBlock is the contents of a small integer input that has a known shape and unknown
// elements.
func (c *Ctx) unknownBlock(i int) (block, bool) {
	n, ok := c.Shape(i).Elements().Const()
	if !ok || n > maxContents || n < 0 {
		return block{}, false
	}
	dims, ok := smallDims(c.Shape(i), int(n))
	return block{dims, unknowns(int(n)), 1}, ok
}

// join puts blocks together along an axis.
func join(parts []block, at int, den int64) (block, bool) {
	dims := slices.Clone(parts[0].dims)
	dims[at] = 0
	for _, p := range parts {
		dims[at] += p.dims[at]
	}
	n := size(dims)
	if n < 0 {
		return block{}, false
	}
	out := block{dims: dims, den: den, elems: make([]symbolic.Expr, n)}
	st, offset := strides(dims), 0
	for _, p := range parts {
		elems, k := p.over(den), 0
		eachIndex(p.dims, func(index []int) {
			to := offset * st[at]
			for i, x := range index {
				to += x * st[i]
			}
			out.elems[to] = elems[k]
			k++
		})
		offset += p.dims[at]
	}
	return out, true
}
