package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// window holds the common attributes of convolutions and pools: a kernel that slides over the
// spatial axes. All slices have one entry per spatial axis.
type window struct {
	kernel              []symbolic.Expr
	strides, dilations  []int64
	padBegin, padEnd    []int64
	autoPad             string
	ceil                bool
	spatial, firstInput int // number of axes, and the data input for messages
}

// spatialRank returns the number of spatial axes: the rank of the data input less batch and
// channel, else that of the attribute kernel_shape or of the weights. ok is false if all of these
// are unknown.
func (c *Ctx) spatialRank(data, weights int) (n int, ok bool) {
	switch {
	case c.Shape(data).Ranked:
		n = c.Shape(data).Rank() - 2
	case weights >= 0 && c.Shape(weights).Ranked:
		n = c.Shape(weights).Rank() - 2
	default:
		k := c.listAttr("kernel_shape")
		return len(k), len(k) > 0
	}
	if n < 1 {
		c.Errorf("input %d has shape %v, wanted batch, channel and at least one spatial axis", data, c.Shape(data))
		return 0, false
	}
	return n, true
}

// window reads the attributes. weights is the input that holds the kernel, or -1 where the
// attribute kernel_shape is required.
func (c *Ctx) window(data, weights, spatial int) (w window, ok bool) {
	w = window{spatial: spatial, firstInput: data}
	w.strides = c.windowInts("strides", spatial, 1, 1)
	w.dilations = c.windowInts("dilations", spatial, 1, 1)
	pads := c.windowInts("pads", 2*spatial, 0, noLeast)
	w.autoPad = c.Str("auto_pad", "NOTSET")
	w.ceil = c.Int("ceil_mode", 0) != 0
	w.kernel = c.kernelDims(weights, spatial)
	if c.Failed() {
		return w, false
	}
	w.padBegin, w.padEnd = pads[:spatial], pads[spatial:]
	switch w.autoPad {
	case "NOTSET", "":
		w.autoPad = "NOTSET"
	case "VALID", "SAME_UPPER", "SAME_LOWER":
		w.padBegin, w.padEnd = make([]int64, spatial), make([]int64, spatial)
	default:
		c.Errorf("attribute auto_pad is %q, wanted NOTSET, SAME_UPPER, SAME_LOWER or VALID", w.autoPad)
	}
	return w, !c.Failed()
}

// noLeast says that an attribute's integers have no lower bound of their own. Pads may be
// negative: they crop.
const noLeast = -1 << 31

// maxWindowInt bounds strides, dilations, pads and kernels. It is far above any real model
// and keeps products of two of them inside int64.
const maxWindowInt = 1 << 31

// windowInts reads a list attribute of n integers from least on, each def where it is absent.
func (c *Ctx) windowInts(name string, n int, def, least int64) []int64 {
	got := c.listAttr(name)
	if len(got) == 0 {
		got = make([]int64, n)
		for i := range got {
			got[i] = def
		}
		return got
	}
	if len(got) != n {
		c.Errorf("attribute %s is %v with %d entries, wanted %d", name, got, len(got), n)
		return got
	}
	for _, v := range got {
		if v < least || v > maxWindowInt {
			c.Errorf("attribute %s is %v; entries must be in [%d, %d]", name, got, least, int64(maxWindowInt))
			return got
		}
	}
	return got
}

// kernelDims returns the kernel's spatial dims from the attribute kernel_shape, else from the
// weights.
func (c *Ctx) kernelDims(weights, spatial int) []symbolic.Expr {
	kernel := make([]symbolic.Expr, spatial)
	attr := c.listAttr("kernel_shape")
	switch {
	case len(attr) > 0:
		for i, k := range c.windowInts("kernel_shape", spatial, 1, 1) {
			if i < spatial {
				kernel[i] = symbolic.Const(k)
			}
		}
	case weights < 0:
		c.Errorf("attribute kernel_shape is missing")
	default:
		for i := range kernel {
			kernel[i] = dimAt(c.Shape(weights), 2+i)
		}
	}
	if weights >= 0 && c.Shape(weights).Ranked && !c.Failed() {
		for i := range kernel {
			c.Unify("the kernel's extent in attribute kernel_shape", kernel[i], dimAt(c.Shape(weights), 2+i))
		}
	}
	return kernel
}

// extent is the span of the dilated kernel on axis i: (kernel-1)·dilation + 1.
func (w *window) extent(i int) symbolic.Expr {
	one := symbolic.Const(1)
	return w.kernel[i].Sub(one).Mul(symbolic.Const(w.dilations[i])).Add(one)
}

// slide returns the number of places of the window on axis i of an input of size in: the
// output sizes of Conv and the pools in the ONNX operator documents.
//
//	explicit padding   floor((in + begin + end - extent) / stride) + 1
//	with ceil_mode     the same with ceil, without a last window that would start in the end padding
//	VALID              ceil((in - extent + 1) / stride), the same as explicit padding with zeros
//	SAME_*             ceil(in / stride)
func (w *window) slide(c *Ctx, i int, in symbolic.Expr) symbolic.Expr {
	stride, one := symbolic.Const(w.strides[i]), symbolic.Const(1)
	if w.autoPad == "SAME_UPPER" || w.autoPad == "SAME_LOWER" {
		return in.CeilDiv(stride)
	}
	if in.IsUnknown() || w.kernel[i].IsUnknown() {
		return symbolic.Unknown()
	}
	extent, begin, end := w.extent(i), symbolic.Const(w.padBegin[i]), symbolic.Const(w.padEnd[i])
	room := in.Add(begin).Add(end).Sub(extent)
	out := room.FloorDiv(stride).Add(one)
	if w.ceil && w.autoPad == "NOTSET" {
		out = w.slideCeil(i, in)
	}
	if n, ok := out.Const(); ok && n < 1 {
		c.Errorf("spatial axis %d of input %d has size %v, which with pads %d and %d is smaller than the kernel's "+
			"extent %v",
			i, w.firstInput, in, w.padBegin[i], w.padEnd[i], extent)
	}
	return out
}

// slideCeil counts the windows that begin inside the input or its begin padding. Rounding up gives
// ceil((in+begin+end-extent)/stride)+1 windows; the last one counts only if it begins before
// in+begin. Both bounds share the divisor, so the smaller numerator decides.
func (w *window) slideCeil(i int, in symbolic.Expr) symbolic.Expr {
	stride := symbolic.Const(w.strides[i])
	upTo := in.Add(symbolic.Const(w.padBegin[i]))
	if extent, ok := w.extent(i).Const(); ok {
		over := w.padEnd[i] + w.strides[i] - extent
		return upTo.Add(symbolic.Const(min(0, over))).CeilDiv(stride)
	}
	rounded := upTo.Add(symbolic.Const(w.padEnd[i])).Sub(w.extent(i)).CeilDiv(stride).Add(symbolic.Const(1))
	return symbolic.Min(rounded, upTo.CeilDiv(stride))
}

// slideAll returns [batch, channels, places...].
func (w *window) slideAll(c *Ctx, channels symbolic.Expr) graph.Shape {
	s := c.Shape(w.firstInput)
	out := graph.UnknownDims(w.spatial + 2)
	out.Dims[0], out.Dims[1] = dimAt(s, 0), channels
	for i := range w.kernel {
		out.Dims[2+i] = w.slide(c, i, dimAt(s, 2+i))
	}
	return out
}
