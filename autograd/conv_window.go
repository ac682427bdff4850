package autograd

import (
	"memopt/symbolic"
)

// slide is a kernel at its places over the spatial axes of a larger tensor, one entry per axis:
// place o of the smaller tensor reads elements o*stride - begin + k*dilation of the larger one.
// Convolutions and pools make the smaller from the larger; a transposed convolution makes the
// larger.
type slide struct {
	kernel, strides, dilations, begin []int64
	// end is the padding that the last place needs, over how many elements of the larger tensor lie
	// after it; one of both is 0. If that is open, known only at run time, end is as the node
	// states it.
	end, over []int64
	open      []bool
}

// axes is the number of spatial axes.
func (s *slide) axes() int { return len(s.kernel) }

// extent is the span of the dilated kernel on axis i.
func (s *slide) extent(i int) int64 { return (s.kernel[i]-1)*s.dilations[i] + 1 }

// anyOpen reports whether some axis is open.
func (s *slide) anyOpen() bool {
	for _, o := range s.open {
		if o {
			return true
		}
	}
	return false
}

// pads is the attribute.
func (s *slide) pads() []int64 { return append(append([]int64(nil), s.begin...), s.end...) }

// attrs are the attributes of a convolution of this form.
func (s *slide) attrs(group int64) Attrs {
	return Attrs{A("dilations", s.dilations), A("group", group), A("pads", s.pads()), A("strides", s.strides)}
}

// listOr reads an attribute of n integers.
func (c *Ctx) listOr(name string, n int, def int64) []int64 {
	if got := c.Node.IntList(name, nil); len(got) == n {
		return got
	}
	list := make([]int64, n)
	for i := range list {
		list[i] = def
	}
	return list
}

// kernelOf returns the kernel's dims: of the attribute, else of the weights.
func (c *Ctx) kernelOf(w Value) []int64 {
	if k := c.Node.IntList("kernel_shape", nil); len(k) > 0 || w == None {
		return k
	}
	if c.Rank(w) < 3 {
		c.Errorf("the weights have rank %d, wanted at least 3", c.Rank(w))
	}
	dims := c.Ranked(w, 3)
	kernel := make([]int64, len(dims)-2)
	for i := range kernel {
		k, ok := dims[i+2].Const()
		if !ok {
			c.Unsupported("with a kernel whose size is not static")
		}
		kernel[i] = k
	}
	return kernel
}

// newSlide reads the attributes of a node that makes small from large.
func (c *Ctx) newSlide(large, small Value, kernel []int64) *slide {
	n := len(kernel)
	if n == 0 || c.Rank(large) != n+2 {
		c.Errorf("the kernel has %d axes, the data have rank %d", n, c.Rank(large))
	}
	s := c.slideAttrs(kernel)
	in, _ := c.Dims(large)
	out, _ := c.Dims(small)
	for i := range n {
		c.autoPad(s, i, in[i+2])
		if len(out) == n+2 {
			c.settle(s, i, in[i+2], out[i+2])
		} else {
			c.settle(s, i, in[i+2], symbolic.Unknown())
		}
	}
	return s
}

// slideAttrs reads the attributes that need no dims.
func (c *Ctx) slideAttrs(kernel []int64) *slide {
	n := len(kernel)
	s := &slide{kernel: kernel, strides: c.listOr("strides", n, 1), dilations: c.listOr("dilations", n, 1),
		over: make([]int64, n), open: make([]bool, n)}
	pads := make([]int64, 2*n)
	if a := c.Node.Str("auto_pad", "NOTSET"); a == "NOTSET" || a == "" {
		pads = append([]int64(nil), c.listOr("pads", 2*n, 0)...)
	}
	for _, p := range pads {
		if p < 0 {
			c.Unsupported("with negative pads")
		}
	}
	s.begin, s.end = pads[:n], pads[n:]
	return s
}

// autoPad sets the pads that auto_pad SAME_UPPER and SAME_LOWER stand for.
func (c *Ctx) autoPad(s *slide, i int, in symbolic.Expr) {
	mode := c.Node.Str("auto_pad", "NOTSET")
	if mode != "SAME_UPPER" && mode != "SAME_LOWER" {
		return
	}
	total := s.extent(i) - 1
	if s.strides[i] > 1 {
		n, ok := in.Const()
		if !ok {
			c.Unsupported("with auto_pad %s, a stride and a size that is not static", mode)
		}
		places := (n + s.strides[i] - 1) / s.strides[i]
		total = max((places-1)*s.strides[i]+s.extent(i)-n, 0)
	}
	s.begin[i], s.end[i] = total/2, total-total/2
	if mode == "SAME_LOWER" {
		s.begin[i], s.end[i] = s.end[i], s.begin[i]
	}
}

// settle finds the padding that the last place needs.
func (c *Ctx) settle(s *slide, i int, in, out symbolic.Expr) {
	ceil := c.Node.Int("ceil_mode", 0) != 0
	if s.strides[i] == 1 && !ceil {
		return // every place is taken: the padding is as stated
	}
	one := symbolic.Const(1)
	need := out.Sub(one).Mul(symbolic.Const(s.strides[i])).Add(symbolic.Const(s.extent(i) - s.begin[i])).Sub(in)
	end, ok := need.Const()
	if ok {
		s.end[i], s.over[i] = max(end, 0), max(-end, 0)
	} else {
		s.open[i] = true
	}
}

// spread is the transposed convolution that takes g, of the smaller size, back to the larger: each
// element of the larger tensor gets the gradients of the places that read it.
func (c *Ctx) spread(s *slide, g, w, large Value, group int64) Value {
	n := s.axes()
	extra := append([]int64(nil), s.over...)
	var ends Value
	if s.anyOpen() {
		// Room for all elements that may be left over at the end; the excess is cut off.
		for i, open := range s.open {
			if open {
				extra[i] = s.strides[i] - 1
			}
		}
		ends = c.spatialDims(large)
	}
	attrs := s.attrs(group)
	for _, e := range extra {
		if e > 0 {
			attrs = append(attrs, A("output_padding", extra))
			break
		}
	}
	y := c.Op("ConvTranspose", attrs, g, w)
	if s.anyOpen() {
		y = c.crop(y, ends, n)
	}
	return y
}

// spatialDims are the dims from the third on.
func (e *emitter) spatialDims(v Value) Value {
	dims, _ := e.Dims(v)
	var parts []Value
	for i := 2; i < len(dims); i++ {
		parts = append(parts, e.Dim(v, int64(i)))
	}
	return e.joinInts(parts...)
}

// crop cuts the n spatial axes to the given sizes.
func (e *emitter) crop(v, ends Value, n int) Value {
	return e.Slice(v, e.Vector(make([]int64, n)...), ends, e.Vector(axesFrom(2, int64(n+2))...))
}
