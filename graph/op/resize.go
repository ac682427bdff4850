package op

import (
	"math"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// resizeRule changes the lengths of axes: to the given sizes, or to the rounded-down product
// with the given scales. Version 10 has scales alone; from version 18 on axes
// and keep_aspect_ratio_policy exist.
func resizeRule(c *Ctx) {
	in := c.Shape(0)
	c.Str("mode", "nearest")
	scales, sizes := 2, 3
	if c.Version < 11 {
		scales, sizes = 1, -1
	}
	if !in.Ranked || c.Failed() {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	axes := allAxes(in)
	if raw, given := c.IntList("axes"); given && c.Version >= 18 {
		axes = c.eachAxis(raw, len(in.Dims))
	}
	if c.Failed() {
		return
	}
	switch {
	case sizes >= 0 && c.filled(sizes):
		c.resizeTo(in, axes, sizes)
	case c.filled(scales):
		c.resizeBy(in, axes, scales)
	default:
		c.Errorf("has neither scales nor sizes")
	}
}

// filled reports whether input i is given and not an empty list, which leaves an input out in
// version 11.
func (c *Ctx) filled(i int) bool {
	n, known := c.length(i)
	return c.Has(i) && !(known && n == 0)
}

// resizeTo sets the axes to the sizes of an input.
func (c *Ctx) resizeTo(in graph.Shape, axes []int, slot int) {
	want := c.ShapeFrom(slot)
	if c.Failed() {
		return
	}
	if want.Ranked && len(want.Dims) != len(axes) {
		c.Errorf("has %d sizes for %d axes", len(want.Dims), len(axes))
		return
	}
	dims := slices.Clone(in.Dims)
	for i, axis := range axes {
		dims[axis] = symbolic.Unknown()
		if want.Ranked {
			dims[axis] = want.Dims[i]
		}
	}
	if policy := c.Str("keep_aspect_ratio_policy", "stretch"); policy != "stretch" {
		c.keepAspect(in, dims, axes, policy)
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}

// keepAspect gives all axes one scale, the smallest ("not_larger") or the largest ("not_smaller")
// that they ask for; only numbers decide which that is.
func (c *Ctx) keepAspect(in graph.Shape, dims []symbolic.Expr, axes []int, policy string) {
	scale, known := 0.0, true
	for i, axis := range axes {
		have, hok := in.Dims[axis].Const()
		want, wok := dims[axis].Const()
		if !hok || !wok || have <= 0 {
			known = false
			break
		}
		s := float64(want) / float64(have)
		if i == 0 || (policy == "not_larger") == (s < scale) {
			scale = s
		}
	}
	if policy != "not_larger" && policy != "not_smaller" {
		c.Errorf("attribute keep_aspect_ratio_policy is %q; it must be stretch, not_larger or not_smaller", policy)
		return
	}
	for _, axis := range axes {
		have, _ := in.Dims[axis].Const()
		if dims[axis] = symbolic.Unknown(); known {
			dims[axis] = dimOf(math.Floor(scale*float64(have) + 0.5))
		}
	}
}

// dimOf turns a computed length into a dim, unknown if it exceeds int64.
func dimOf(x float64) symbolic.Expr {
	if !(x >= 0 && x < 1<<62) {
		return symbolic.Unknown()
	}
	return symbolic.Const(int64(x))
}

// resizeBy multiplies the axes by the scales of an input. With coordinates that crop to a
// region, the region's share counts too; it is data, so those dims stay unknown.
func (c *Ctx) resizeBy(in graph.Shape, axes []int, slot int) {
	dims := slices.Clone(in.Dims)
	s, ok := c.scales(slot)
	if ok && len(s) != len(axes) {
		c.Errorf("has %d scales for %d axes", len(s), len(axes))
		return
	}
	crop := c.Str("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
	for i, axis := range axes {
		if dims[axis] = symbolic.Unknown(); ok && !crop {
			dims[axis] = s[i].times(in.Dims[axis])
		}
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}

// scale is a factor: a number as the file has it, or a fraction of expressions.
type scale struct {
	num   symbolic.Expr
	den   int64
	value float32 // the number, where num is one
}

// scales reads the factors of input i.
func (c *Ctx) scales(i int) ([]scale, bool) {
	if t := c.Data(i); t != nil {
		if n, err := t.Elements(); err == nil && n <= maxRank {
			if list, err := t.Float64s(); err == nil {
				return scalesOf(list), true
			}
		}
	}
	b, ok := c.block(i)
	if !ok {
		return nil, false
	}
	out := make([]scale, len(b.elems))
	for k, e := range b.elems {
		out[k] = scale{num: e, den: b.den, value: float32(math.NaN())}
		if n, ok := e.Const(); ok {
			out[k].value = float32(float64(n) / float64(b.den))
		}
	}
	return out, true
}

func scalesOf(list []float64) []scale {
	out := make([]scale, len(list))
	for i, x := range list {
		out[i] = scale{num: symbolic.Unknown(), den: 1, value: float32(x)}
		if num, den, ok := fraction(x, false); ok {
			out[i].num, out[i].den = symbolic.Const(num), den
		}
	}
	return out
}

// times returns floor(d*scale): for numbers in float32, as runtimes compute it.
func (s scale) times(d symbolic.Expr) symbolic.Expr {
	if n, ok := d.Const(); ok && s.value == s.value {
		return dimOf(math.Floor(float64(float32(n) * s.value)))
	}
	return d.Mul(s.num).FloorDiv(symbolic.Const(s.den))
}

// upsampleRule: the scales were two attributes, then a list, then an input.
func upsampleRule(c *Ctx) {
	in := c.Shape(0)
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), in)
		return
	}
	var s []scale
	ok := true
	switch {
	case c.Version >= 9:
		s, ok = c.scales(1)
	case c.Version >= 7:
		list, _ := c.FloatList("scales")
		s = scalesOf(widen(list))
	default:
		s = scalesOf([]float64{1, 1, float64(c.Float("height_scale", 1)), float64(c.Float("width_scale", 1))})
	}
	if !ok {
		c.OutTensor(0, c.DType(0), graph.UnknownDims(len(in.Dims)))
		return
	}
	if len(s) != len(in.Dims) {
		c.Errorf("has %d scales for rank %d", len(s), len(in.Dims))
		return
	}
	dims := make([]symbolic.Expr, len(s))
	for i, d := range in.Dims {
		dims[i] = s[i].times(d)
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}

func widen(list []float32) []float64 {
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = float64(x)
	}
	return out
}
