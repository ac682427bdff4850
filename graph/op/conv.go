package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// convOperands says which slots hold a convolution's operands and which type it gives.
type convOperands struct {
	data, weights, bias int // input slots; bias is -1 for an operator without one
	dtype               func(*Ctx) graph.DType
}

// convolutionRule is the shape rule of Conv and its relatives: X [N, C, d…] and W [M, C/group, k…]
// give Y [N, M, d'…].
func convolutionRule(at convOperands) func(*Ctx) {
	return func(c *Ctx) {
		spatial, ok := c.spatialRank(at.data, at.weights)
		if c.Failed() {
			return
		}
		if !ok {
			c.OutTensor(0, at.dtype(c), graph.Shape{})
			return
		}
		if !c.rankIn(at.data, spatial+2) || !c.rankIn(at.weights, spatial+2) {
			return
		}
		w, ok := c.window(at.data, at.weights, spatial)
		if !ok || !c.convChannels(at) {
			return
		}
		c.OutTensor(0, at.dtype(c), w.slideAll(c, dimAt(c.Shape(at.weights), 0)))
	}
}

// convChannels checks channels, groups and bias against each other.
func (c *Ctx) convChannels(at convOperands) bool {
	group := c.Int("group", 1)
	if group < 1 || group > maxWindowInt {
		c.Errorf("attribute group is %d, wanted at least 1", group)
		return false
	}
	w := c.Shape(at.weights)
	c.divided("the number of output channels", dimAt(w, 0), group)
	perGroup := c.divided("the number of input channels", dimAt(c.Shape(at.data), 1), group)
	c.Unify("the number of input channels per group in the weights", dimAt(w, 1), perGroup)
	if at.bias >= 0 && c.Has(at.bias) && c.rankIn(at.bias, 1) {
		c.Unify("the length of the bias", dimAt(c.Shape(at.bias), 0), dimAt(w, 0))
	}
	return !c.Failed()
}

func inputDType(i int) func(*Ctx) graph.DType { return func(c *Ctx) graph.DType { return c.DType(i) } }

func int32Result(*Ctx) graph.DType { return graph.Int32 }

var (
	convRule        = convolutionRule(convOperands{0, 1, 2, inputDType(0)})
	convIntegerRule = convolutionRule(convOperands{0, 1, -1, int32Result})
	qLinearConvRule = convolutionRule(convOperands{0, 3, 8, inputDType(7)})
)

// convFLOPs counts a multiply-add as two: 2·N·M·places·(C/group)·kernel, which is twice the
// output's elements times the elements of one filter.
func convFLOPs(weights int) func(*Ctx) symbolic.Expr {
	return func(c *Ctx) symbolic.Expr {
		w := c.Shape(weights)
		if !w.Ranked || len(w.Dims) < 2 {
			return symbolic.Unknown()
		}
		return mul(symbolic.Const(2), c.OutType(0).Shape.Elements(), mul(w.Dims[1:]...))
	}
}

// convTransposeFLOPs: every element of the input meets every weight of its group once.
func convTransposeFLOPs(c *Ctx) symbolic.Expr {
	w := c.Shape(1)
	if !w.Ranked || len(w.Dims) < 2 {
		return symbolic.Unknown()
	}
	return mul(symbolic.Const(2), c.Shape(0).Elements(), mul(w.Dims[1:]...))
}

// convGradFLOPs: the gradients of the data and of the weights cost one convolution each.
func convGradFLOPs(c *Ctx) symbolic.Expr {
	w := c.Shape(2)
	if !w.Ranked || len(w.Dims) < 2 {
		return symbolic.Unknown()
	}
	return mul(symbolic.Const(4), c.Shape(0).Elements(), mul(w.Dims[1:]...))
}

// convTransposeRule: X [N, C, d…] and W [C, M/group, k…] give Y [N, M, d'…] with
//
//	d' = stride·(d-1) + output_padding + extent - begin - end
//
// unless the attribute output_shape states d' or auto_pad SAME_* makes it stride·d.
func convTransposeRule(c *Ctx) {
	spatial, ok := c.spatialRank(0, 1)
	if c.Failed() {
		return
	}
	if !ok {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	if !c.rankIn(0, spatial+2) || !c.rankIn(1, spatial+2) {
		return
	}
	w, ok := c.window(0, 1, spatial)
	if !ok {
		return
	}
	out := graph.UnknownDims(spatial + 2)
	out.Dims[0] = dimAt(c.Shape(0), 0)
	out.Dims[1] = c.convTransposeChannels()
	extra := c.windowInts("output_padding", spatial, 0, 0)
	stated := c.transposeOutputShape(spatial)
	if c.Failed() {
		return
	}
	for i := range spatial {
		if extra[i] > 0 && extra[i] >= max(w.strides[i], w.dilations[i]) {
			c.Errorf("output_padding is %d on spatial axis %d, wanted less than the stride %d or the dilation %d",
				extra[i], i, w.strides[i], w.dilations[i])
			return
		}
		if stated != nil {
			out.Dims[2+i] = symbolic.Const(stated[i])
			continue
		}
		out.Dims[2+i] = w.spread(c, i, dimAt(c.Shape(0), 2+i), extra[i])
	}
	c.OutTensor(0, c.DType(0), out)
}

func (c *Ctx) convTransposeChannels() symbolic.Expr {
	group := c.Int("group", 1)
	if group < 1 || group > maxWindowInt {
		c.Errorf("attribute group is %d, wanted at least 1", group)
		return symbolic.Unknown()
	}
	x, w := dimAt(c.Shape(0), 1), dimAt(c.Shape(1), 0)
	c.divided("the number of input channels", c.Unify("the input channels of data and weights", x, w), group)
	out := dimAt(c.Shape(1), 1).Mul(symbolic.Const(group))
	if c.Has(2) && c.rankIn(2, 1) {
		c.Unify("the length of the bias", dimAt(c.Shape(2), 0), out)
	}
	return out
}

// transposeOutputShape reads the attribute output_shape, which lists the spatial dims; files that
// list batch and channel, too, are common and are read as runtimes read them.
func (c *Ctx) transposeOutputShape(spatial int) []int64 {
	stated := c.listAttr("output_shape")
	if len(stated) == 0 {
		return nil
	}
	if len(stated) == spatial+2 {
		stated = stated[2:]
	}
	if len(stated) != spatial {
		c.Errorf("attribute output_shape is %v with %d entries, wanted %d", stated, len(stated), spatial)
		return nil
	}
	for _, d := range stated {
		if d < 1 {
			c.Errorf("attribute output_shape is %v; its entries must be at least 1", stated)
			return nil
		}
	}
	return stated
}

// spread is the inverse of slide.
func (w *window) spread(c *Ctx, i int, in symbolic.Expr, extra int64) symbolic.Expr {
	stride := symbolic.Const(w.strides[i])
	if w.autoPad == "SAME_UPPER" || w.autoPad == "SAME_LOWER" {
		return in.Mul(stride)
	}
	out := in.Sub(symbolic.Const(1)).Mul(stride).Add(w.extent(i)).
		Add(symbolic.Const(extra - w.padBegin[i] - w.padEnd[i]))
	if n, ok := out.Const(); ok && n < 1 {
		c.Errorf("spatial axis %d of the output has size %d: pads %d and %d take more than there is",
			i, n, w.padBegin[i], w.padEnd[i])
	}
	return out
}

// deformConvRule: inputs X, W, offset, bias, mask; the shapes of a Conv.
var deformConvRule = func() func(*Ctx) {
	conv := convolutionRule(convOperands{0, 1, 3, inputDType(0)})
	return func(c *Ctx) {
		if g := c.Int("offset_group", 1); g < 1 {
			c.Errorf("attribute offset_group is %d, wanted at least 1", g)
			return
		}
		conv(c)
	}
}()

// convGradRule: inputs dY, X, W; outputs the gradients of X, W and the bias.
func convGradRule(c *Ctx) {
	c.Out(0, c.In(1))
	c.Out(1, c.In(2))
	c.OutTensor(2, c.DType(0), graph.Dims(dimAt(c.Shape(2), 0)))
}
