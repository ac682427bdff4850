package autograd

import (
	"memopt/graph"
)

// matMulNBitsRule: Y = A Wᵀ + bias, so dA = dY W and dbias is the sum of dY. W is made from its bits in the
// backward half, by operators of ONNX: stored weights are no parameters.
func matMulNBitsRule(c *Ctx) {
	g := c.Grad(0)
	if c.Wants(5) {
		c.Set(5, c.SumTo(g, c.In(5)))
	}
	if !c.Wants(0) {
		return
	}
	if c.Has(4) {
		c.Unsupported("with g_idx")
	}
	a := c.In(0)
	if c.Rank(a) < 2 {
		c.Unsupported("with an operand of rank 1")
	}
	da := c.product(matrixView{c.rowsOf(g), false}, matrixView{c.weightOfBits(), false}, 1)
	c.Set(0, c.formVia(da, a, g))
}

// weightOfBits makes the weight of a MatMulNBits: N rows of K numbers, each (q - zero)*scale.
func (c *Ctx) weightOfBits() Value {
	a, n, k := c.In(0), c.Node.Int("N", 0), c.Node.Int("K", 0)
	bits, block := c.Node.Int("bits", 4), c.Node.Int("block_size", 0)
	if bits != 2 && bits != 4 && bits != 8 || block <= 0 {
		c.Unsupported("with %d bits and blocks of %d", bits, block)
	}
	blocks := (k + block - 1) / block
	w := c.unpacked(c.In(1), bits, n, blocks, block)
	zero := c.Scalar(float64(int64(1)<<(bits-1)), a)
	if c.Has(3) {
		if c.j.g.Values[c.In(3)].Type.DType == graph.Uint8 {
			rows := (blocks*bits + 7) / 8 * 8 / bits // a row of zero points fills whole bytes
			zero = c.unpacked(c.In(3), bits, n, 1, rows)
			zero = c.sliceAxis(c.Reshape(zero, c.Vector(n, rows)), 1, 0, blocks)
		} else {
			zero = c.In(3)
		}
		zero = c.Reshape(zero, c.Vector(n, blocks, 1))
	}
	w = c.Mul(c.Sub(w, zero), c.Reshape(c.In(2), c.Vector(n, blocks, 1)))
	w = c.Reshape(w, c.Vector(n, blocks*block))
	if blocks*block != k {
		w = c.sliceAxis(w, 1, 0, k)
	}
	return w
}

// unpacked makes numbers of the type of A of bytes that hold several each, the first in the lowest bits:
// rows of blocks of numbers.
func (c *Ctx) unpacked(bytes Value, bits, rows, blocks, block int64) Value {
	d := c.j.g.Values[c.In(0)].Type.DType
	if bits == 8 {
		return c.Reshape(c.Cast(bytes, d), c.Vector(rows, blocks, block))
	}
	var parts []Value
	bytes = c.Reshape(bytes, c.Vector(rows, blocks, block*bits/8, 1))
	shift := func(v Value, by int64, direction string) Value {
		if by == 0 {
			return v
		}
		n := c.j.constant(&graph.TensorData{DType: graph.Uint8, Dims: []int64{}, Source: graph.Raw{byte(by)}})
		return c.Op("BitShift", Attrs{{Name: "direction", Value: direction}}, v, n)
	}
	for at := int64(0); at < 8; at += bits {
		parts = append(parts, shift(shift(bytes, 8-bits-at, "LEFT"), 8-bits, "RIGHT"))
	}
	return c.Reshape(c.Cast(c.Concat(3, parts...), d), c.Vector(rows, blocks, block))
}
