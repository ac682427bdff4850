package op

import (
	"slices"
)

// scatterElementsRule: the result is the data with single elements replaced.
func scatterElementsRule(c *Ctx) {
	c.want(1, indices)
	dtype := c.sameTypes(0, 2)
	data := c.Shape(0)
	if data.Ranked {
		c.Axis("attribute axis", c.Int("axis", 0), len(data.Dims))
		c.wantRank(1, len(data.Dims))
		c.wantRank(2, len(data.Dims))
	}
	c.OutTensor(0, dtype, data)
}

// scatterNDRule: the result is the data with slices replaced by the updates; the last axis
// of the indices addresses the data's first axes.
func scatterNDRule(c *Ctx) {
	c.want(1, indices)
	dtype := c.sameTypes(0, 2)
	data, idx := c.Shape(0), c.Shape(1)
	if data.Ranked && idx.Ranked {
		if len(idx.Dims) == 0 || len(data.Dims) == 0 {
			c.Errorf("inputs have shapes %v and %v, wanted rank 1 or more", data, idx)
			return
		}
		depth, ok := idx.Dims[len(idx.Dims)-1].Const()
		if ok && (depth < 0 || depth > int64(len(data.Dims))) {
			c.Errorf("the last dim of the indices is %d and the data has shape %v", depth, data)
			return
		}
		if ok {
			c.wantRank(2, len(idx.Dims)-1+len(data.Dims)-int(depth))
		}
	}
	c.OutTensor(0, dtype, data)
	if !c.Failed() && c.Str("reduction", "none") == "none" {
		c.foldScatterND()
	}
}

// foldScatterND writes the elements of the updates into a copy of the data's.
func (c *Ctx) foldScatterND() {
	data, ok := c.block(0)
	if !ok {
		return
	}
	idx, iok := c.block(1)
	updates, den, uok := block{}, int64(0), false
	if data, updates, den, uok = c.pair(0, 2); !iok || !uok || len(idx.dims) == 0 {
		return
	}
	depth := idx.dims[len(idx.dims)-1]
	if depth > len(data.dims) {
		return
	}
	chunk := size(data.dims[depth:])
	rows := size(idx.dims[:len(idx.dims)-1])
	if chunk < 0 || rows < 0 || rows*chunk != len(updates.elems) {
		return
	}
	out := block{dims: data.dims, den: den, elems: slices.Clone(data.elems)}
	st := strides(data.dims)
	for row := range rows {
		to := 0
		for k := range depth {
			x, ok := idx.elems[row*depth+k].Const()
			n := int64(data.dims[k])
			if !ok || x < -n || x >= n {
				return
			}
			if x < 0 {
				x += n
			}
			to += int(x) * st[k]
		}
		copy(out.elems[to:to+chunk], updates.elems[row*chunk:])
	}
	c.setBlock(0, out)
}

// tensorScatterRule: the result is the cache with the update written into it.
func tensorScatterRule(c *Ctx) {
	dtype := c.sameTypes(0, 1)
	if s := c.Shape(0); s.Ranked {
		c.wantRank(1, len(s.Dims))
	}
	c.OutTensor(0, dtype, c.Shape(0))
}
