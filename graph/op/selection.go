package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// Rules of operators that select elements. Where the data decides how many, the
// dim is unknown.

// topKRule: K was an attribute before version 10 and is input 1 since.
func topKRule(c *Ctx) {
	in := c.Shape(0)
	k := symbolic.Unknown()
	if c.Version < 10 {
		k = symbolic.Const(c.NeedInt("k"))
	} else if elems, ok := c.Contents(1); ok && len(elems) == 1 {
		k = elems[0]
	}
	axis := c.Int("axis", -1)
	if c.Failed() {
		return
	}
	out := graph.Shape{}
	if in.Ranked {
		at, ok := c.Axis("attribute axis", axis, len(in.Dims))
		if !ok {
			return
		}
		n, known := in.Dims[at].Const()
		if want, isConst := k.Const(); isConst && (want < 0 || known && want > n) {
			c.Errorf("k is %d and axis %d of shape %v is shorter", want, at, in)
			return
		}
		out = with(in, at, k)
	}
	c.OutTensor(0, c.DType(0), out)
	c.OutTensor(1, graph.Int64, out)
}

// uniqueRule: without an axis the input counts as a flat list.
func uniqueRule(c *Ctx) {
	in := c.Shape(0)
	values, inverse := graph.UnknownDims(1), graph.Dims(in.Elements())
	if c.Node.Attr("axis") != nil {
		values, inverse = graph.Shape{}, graph.UnknownDims(1)
		axis := c.Int("axis", 0)
		if in.Ranked {
			at, ok := c.Axis("attribute axis", axis, len(in.Dims))
			if !ok {
				return
			}
			values, inverse = with(in, at, symbolic.Unknown()), graph.Dims(in.Dims[at])
		}
	}
	c.OutTensor(0, c.DType(0), values)
	c.OutTensor(1, graph.Int64, graph.UnknownDims(1))
	c.OutTensor(2, graph.Int64, inverse)
	c.OutTensor(3, graph.Int64, graph.UnknownDims(1))
}

// nonZeroRule: one row per axis, one column per element that is not 0. A scalar
// counts as a list of one.
func nonZeroRule(c *Ctx) {
	rank := symbolic.Unknown()
	if in := c.Shape(0); in.Ranked {
		rank = symbolic.Const(int64(max(len(in.Dims), 1)))
	}
	c.OutTensor(0, graph.Int64, graph.Dims(rank, symbolic.Unknown()))
}

// compressRule keeps the slices whose condition is true.
func compressRule(c *Ctx) {
	in := c.Shape(0)
	c.want(1, bools)
	c.wantRank(1, 1)
	n := c.countTrue()
	if c.Node.Attr("axis") == nil {
		c.OutTensor(0, c.DType(0), graph.Dims(n))
		return
	}
	axis := c.Int("axis", 0)
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	if at, ok := c.Axis("attribute axis", axis, len(in.Dims)); ok {
		c.OutTensor(0, c.DType(0), with(in, at, n))
	}
}

// countTrue returns how often the condition of a Compress is true.
func (c *Ctx) countTrue() symbolic.Expr {
	elems, ok := c.Contents(1)
	if !ok {
		return symbolic.Unknown()
	}
	return symbolic.Sum(elems...)
}

// oneHotRule inserts an axis whose length is the value of input 1.
func oneHotRule(c *Ctx) {
	in := c.Shape(0)
	c.want(0, numbers)
	depth := symbolic.Unknown()
	if elems, ok := c.Contents(1); ok && len(elems) == 1 {
		depth = elems[0]
	}
	axis := c.Int("axis", -1)
	if c.Failed() {
		return
	}
	if !in.Ranked {
		c.OutTensor(0, c.DType(2), graph.Shape{})
		return
	}
	if at, ok := c.Axis("attribute axis", axis, len(in.Dims)+1); ok {
		c.OutTensor(0, c.DType(2), graph.Dims(slices.Insert(slices.Clone(in.Dims), at, depth)...))
	}
}

// reverseSequenceRule: the result is like the input.
func reverseSequenceRule(c *Ctx) {
	if in := c.Shape(0); in.Ranked && len(in.Dims) < 2 {
		c.Errorf("input 0 has shape %v, wanted rank 2 or more", in)
	}
	c.Out(0, tensorOf(c.In(0)))
}

// triluRule: matrices in the last two dims; the result is like the input.
func triluRule(c *Ctx) {
	c.Int("upper", 1)
	if in := c.Shape(0); in.Ranked && len(in.Dims) < 2 {
		c.Errorf("input 0 has shape %v, wanted matrices in the last two dims", in)
	}
	c.Out(0, tensorOf(c.In(0)))
}
