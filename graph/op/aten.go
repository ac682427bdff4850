package op

import (
	"maps"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/symbolic"
)

// atenInfo is a function of PyTorch's operator library that a node of kind ATen calls.
type atenInfo struct {
	infer func(*Ctx)
	// backward says that only ORTModule's gradient graphs call it.
	backward bool
}

// atenTable has the functions that ORTModule's exporter and its gradient builder write, by name and overload
// (ATenFunction). The signatures are PyTorch's; lists such as kernel sizes are inputs of int64.
// https://github.com/pytorch/pytorch/blob/v2.4.1/aten/src/ATen/native/native_functions.yaml
var atenTable map[string]atenInfo

// init fills the table, which its own rules read through wantInputs.
func init() {
	atenTable = map[string]atenInfo{
		"_adaptive_avg_pool2d":                             {infer: (*Ctx).atenAdaptivePool},
		"_adaptive_avg_pool2d_backward":                    {infer: like(1), backward: true},
		"_scaled_dot_product_efficient_attention":          {infer: (*Ctx).atenAttention},
		"_scaled_dot_product_efficient_attention_backward": {infer: like(1, 2, 3), backward: true},
		"argmax":                             {infer: func(c *Ctx) { c.atenExtreme(1, graph.Int64) }},
		"avg_pool2d":                         {infer: func(c *Ctx) { c.atenPool(-1, 4) }},
		"avg_pool2d_backward":                {infer: like(1), backward: true},
		"bitwise_or.Tensor":                  {infer: (*Ctx).atenBinary},
		"diagonal":                           {infer: (*Ctx).atenDiagonal},
		"diagonal_backward":                  {infer: shapeOfInput(1), backward: true},
		"embedding":                          {infer: (*Ctx).embedding},
		"embedding_backward":                 {infer: (*Ctx).embeddingBackward, backward: true},
		"embedding_dense_backward":           {infer: (*Ctx).embeddingBackward, backward: true},
		"max":                                {infer: func(c *Ctx) { c.OutTensor(0, c.DType(0), graph.Dims()) }},
		"max.dim":                            {infer: func(c *Ctx) { c.atenExtreme(1, c.DType(0), graph.Int64) }},
		"max_pool2d_with_indices":            {infer: func(c *Ctx) { c.atenPool(4, 5, graph.Int64) }},
		"max_pool2d_with_indices_backward":   {infer: like(1), backward: true},
		"min":                                {infer: func(c *Ctx) { c.OutTensor(0, c.DType(0), graph.Dims()) }},
		"min.dim":                            {infer: func(c *Ctx) { c.atenExtreme(1, c.DType(0), graph.Int64) }},
		"multinomial":                        {infer: (*Ctx).atenMultinomial},
		"native_group_norm":                  {infer: (*Ctx).atenGroupNorm},
		"native_group_norm_backward":         {infer: like(1, 4, 4), backward: true},
		"numpy_T":                            {infer: (*Ctx).atenReversed},
		"unfold":                             {infer: (*Ctx).atenUnfold},
		"unfold_backward":                    {infer: shapeOfInput(1), backward: true},
		"upsample_bicubic2d.vec":             {infer: func(c *Ctx) { c.atenUpsample(3) }},
		"upsample_bicubic2d_backward":        {infer: shapeOfInput(2), backward: true},
		"upsample_bilinear2d.vec":            {infer: func(c *Ctx) { c.atenUpsample(3) }},
		"upsample_bilinear2d_backward":       {infer: shapeOfInput(2), backward: true},
		"upsample_nearest1d.vec":             {infer: func(c *Ctx) { c.atenUpsample(2) }},
		"upsample_nearest1d_backward":        {infer: shapeOfInput(2), backward: true},
		"upsample_nearest2d.vec":             {infer: func(c *Ctx) { c.atenUpsample(2) }},
		"upsample_nearest2d_backward":        {infer: shapeOfInput(2), backward: true},
		"upsample_nearest3d.vec":             {infer: func(c *Ctx) { c.atenUpsample(2) }},
		"upsample_nearest3d_backward":        {infer: shapeOfInput(2), backward: true},
		"value_selecting_reduction_backward": {infer: shapeOfInput(3), backward: true},
	}
}

// ATenFunction names the function of PyTorch that a node of kind ATen calls, with its overload: "max.dim", for
// example.
func ATenFunction(n *graph.Node) string {
	name := strings.TrimPrefix(n.Str("operator", ""), "aten::")
	if overload := n.Str("overload_name", ""); overload != "" {
		name += "." + overload
	}
	return name
}

// ATenFunctions lists the functions whose types are inferred, in the order of their names. backward adds those that
// only gradient graphs call.
func ATenFunctions(backward bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(atenTable)),
		func(name string) bool { return atenTable[name].backward && !backward })
}

// atenRule infers the types of the functions of the table, and of no others.
func atenRule(c *Ctx) {
	if infer := atenTable[ATenFunction(c.Node)].infer; infer != nil {
		infer(c)
	}
}

// shapeOfInput: the shape that an input lists, with the elements of input 0.
func shapeOfInput(slot int) func(*Ctx) {
	return func(c *Ctx) {
		if !c.wantInputs(slot + 1) {
			return
		}
		if s := c.ShapeFrom(slot); !c.Failed() {
			c.OutTensor(0, c.DType(0), s)
		}
	}
}

// atenInts reads a list of n integers, as PyTorch takes it: one integer stands for all, an empty list or one that
// is left out for def. ok is false where they are not known before the run.
func (c *Ctx) atenInts(slot, n int, def int64) (list []int64, ok bool) {
	if c.Has(slot) {
		if list, ok = c.Ints(slot); !ok {
			return nil, false
		}
	}
	switch len(list) {
	case 0:
		return slices.Repeat([]int64{def}, n), true
	case 1:
		return slices.Repeat(list, n), true
	case n:
		return list, true
	}
	c.Errorf("input %d is %v, wanted %d integers", slot, list, n)
	return nil, false
}

// atenInt reads one integer.
func (c *Ctx) atenInt(slot int, def int64) (int64, bool) {
	list, ok := c.atenInts(slot, 1, def)
	if !ok {
		return 0, false
	}
	return list[0], true
}

// atenPool: inputs are X [N, C, H, W], the kernel, strides, pads, for slots above 0 the dilations, and whether sizes
// are rounded up. Further outputs of the types given have the shape of output 0.
func (c *Ctx) atenPool(dilations, ceil int, also ...graph.DType) {
	if !c.wantInputs(2) {
		return
	}
	out := graph.Shape{}
	if s := c.Shape(0); len(s.Dims) == 4 {
		out = c.atenPlaces(dilations, ceil)
	}
	if c.Failed() {
		return
	}
	c.OutTensor(0, c.DType(0), out)
	for i, d := range also {
		c.OutTensor(1+i, d, out)
	}
}

func (c *Ctx) atenPlaces(dilations, ceil int) graph.Shape {
	s := c.Shape(0)
	open := graph.Dims(s.Dims[0], s.Dims[1], symbolic.Unknown(), symbolic.Unknown())
	kernel, ok := c.atenInts(1, 2, 1)
	if !ok {
		return open
	}
	w := window{kernel: []symbolic.Expr{symbolic.Const(kernel[0]), symbolic.Const(kernel[1])},
		dilations: []int64{1, 1}, autoPad: "NOTSET", spatial: 2}
	var known [4]bool
	if w.strides, known[0] = c.atenInts(2, 2, 0); known[0] {
		for i, n := range w.strides {
			if n == 0 {
				w.strides = slices.Clone(w.strides)
				w.strides[i] = kernel[i]
			}
		}
	}
	w.padBegin, known[1] = c.atenInts(3, 2, 0)
	w.padEnd, known[2] = w.padBegin, true
	if dilations >= 0 {
		w.dilations, known[2] = c.atenInts(dilations, 2, 1)
	}
	up, ok := c.atenInt(ceil, 0)
	known[3], w.ceil = ok, up != 0
	if known != [...]bool{true, true, true, true} {
		return open
	}
	for i := range 2 {
		for _, n := range []int64{kernel[i], w.strides[i], w.dilations[i]} {
			if n < 1 || n > maxWindowInt {
				c.Errorf("kernel %v, strides %v, dilations %v; they must be in [1, %d]", kernel, w.strides,
					w.dilations, int64(maxWindowInt))
				return open
			}
		}
		if w.padBegin[i] < 0 || w.padBegin[i] > maxWindowInt {
			c.Errorf("pads %v; they must be in [0, %d]", w.padBegin, int64(maxWindowInt))
			return open
		}
	}
	return w.slideAll(c, s.Dims[1])
}

// atenAdaptivePool: X [N, C, H, W] and the size of the result.
func (c *Ctx) atenAdaptivePool() {
	if !c.wantInputs(2) {
		return
	}
	s, size := c.Shape(0), c.ShapeFrom(1)
	if c.Failed() || !c.rankFrom(0, 3) {
		return
	}
	if !s.Ranked || len(size.Dims) != 2 {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	lead := len(s.Dims) - 2
	c.OutTensor(0, c.DType(0), graph.Dims(append(slices.Clone(s.Dims[:lead]), size.Dims...)...))
}

// atenAttention: queries, keys and values [B, heads, length, size] give the result, the logarithms of the sums, and
// a seed and an offset of the draws.
func (c *Ctx) atenAttention() {
	if !c.wantInputs(3) || !c.rankFrom(0, 4) || !c.rankFrom(2, 4) {
		return
	}
	q, v := c.Shape(0), c.Shape(2)
	if q.Ranked && v.Ranked {
		c.OutTensor(0, c.DType(0), with(q, len(q.Dims)-1, dimAt(v, -1)))
	}
	c.OutTensor(1, graph.Float32, graph.Shape{})
	c.OutTensor(2, graph.Int64, graph.Dims())
	c.OutTensor(3, graph.Int64, graph.Dims())
}

// atenBinary: elementwise, with broadcasting.
func (c *Ctx) atenBinary() {
	if !c.wantInputs(2) {
		return
	}
	if s := c.Broadcast(0, 1); !c.Failed() {
		c.OutTensor(0, c.DType(0), s)
	}
}

// atenExtreme: inputs are X, an axis, which may be left out for all of them, and whether it stays as a dim of 1.
func (c *Ctx) atenExtreme(axisAt int, types ...graph.DType) {
	s, out := c.Shape(0), graph.Shape{}
	axis, known := c.atenInt(axisAt, 0)
	keep, known2 := c.atenInt(axisAt+1, 0)
	if c.Failed() {
		return
	}
	switch {
	case !s.Ranked || !known || !known2:
	case !c.Has(axisAt):
		if out = graph.Dims(); keep != 0 {
			out = graph.Dims(slices.Repeat([]symbolic.Expr{symbolic.Const(1)}, len(s.Dims))...)
		}
	case len(s.Dims) == 0:
		out = s
	default:
		at, ok := c.Axis("the axis", axis, len(s.Dims))
		if !ok {
			return
		}
		if out = without(s, at); keep != 0 {
			out = with(s, at, symbolic.Const(1))
		}
	}
	for i, d := range types {
		c.OutTensor(i, d, out)
	}
}

// atenDiagonal: inputs are X, an offset and two axes, whose diagonal becomes the last axis.
func (c *Ctx) atenDiagonal() {
	s := c.Shape(0)
	if !c.rankFrom(0, 2) {
		return
	}
	offset, known := c.atenInt(1, 0)
	a, known2 := c.atenInt(2, 0)
	b, known3 := c.atenInt(3, 1)
	if !s.Ranked || !known || !known2 || !known3 {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	axes := c.eachAxis([]int64{a, b}, len(s.Dims))
	if c.Failed() {
		return
	}
	h, w := s.Dims[axes[0]], s.Dims[axes[1]]
	if offset < 0 {
		h = h.Add(symbolic.Const(offset))
	} else {
		w = w.Sub(symbolic.Const(offset))
	}
	length := symbolic.Max(symbolic.Const(0), symbolic.Min(h, w))
	if offset == 0 {
		length = symbolic.Min(h, w)
	}
	var dims []symbolic.Expr
	for i, d := range s.Dims {
		if i != axes[0] && i != axes[1] {
			dims = append(dims, d)
		}
	}
	c.OutTensor(0, c.DType(0), graph.Dims(append(dims, length)...))
}

// atenUnfold: inputs are X, an axis, a length and a step; the pieces of the axis that begin at every step become an
// axis behind the last one.
func (c *Ctx) atenUnfold() {
	s := c.Shape(0)
	if !c.wantInputs(4) || !c.rankFrom(0, 1) {
		return
	}
	axis, known := c.atenInt(1, 0)
	size, known2 := c.atenInt(2, 0)
	step, known3 := c.atenInt(3, 1)
	if !s.Ranked || !known || !known2 || !known3 {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	at, ok := c.Axis("the axis", axis, len(s.Dims))
	if !ok {
		return
	}
	if size < 0 || step < 1 {
		c.Errorf("pieces of %d elements at steps of %d; the step must be 1 or more", size, step)
		return
	}
	count := s.Dims[at].Sub(symbolic.Const(size)).FloorDiv(symbolic.Const(step)).Add(symbolic.Const(1))
	dims := append(slices.Clone(with(s, at, count).Dims), symbolic.Const(size))
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}

// atenMultinomial: inputs are weights and the number of draws of each row.
func (c *Ctx) atenMultinomial() {
	s := c.Shape(0)
	if !c.wantInputs(2) || !c.rankFrom(0, 1) || !s.Ranked {
		return
	}
	n := symbolic.Unknown()
	if draws, ok := c.atenInt(1, 1); ok {
		n = symbolic.Const(draws)
	}
	c.OutTensor(0, graph.Int64, with(s, len(s.Dims)-1, n))
}

// atenGroupNorm: X, weights, biases, N, C, the elements of a plane, the number of groups and an epsilon give Y, means
// and inverse deviations.
func (c *Ctx) atenGroupNorm() {
	if !c.wantInputs(8) || !c.rankFrom(0, 2) {
		return
	}
	c.Out(0, c.In(0))
	groups := symbolic.Unknown()
	if n, ok := c.atenInt(6, 1); ok {
		groups = symbolic.Const(n)
	}
	for i := 1; i < 3; i++ {
		c.OutTensor(i, c.DType(0), graph.Dims(dimAt(c.Shape(0), 0), groups))
	}
}

// atenReversed: the axes in reverse.
func (c *Ctx) atenReversed() {
	s := c.Shape(0)
	if s.Ranked {
		dims := slices.Clone(s.Dims)
		slices.Reverse(dims)
		s = graph.Dims(dims...)
	}
	c.OutTensor(0, c.DType(0), s)
}

// atenUpsample: X [N, C, d…], and sizes or scales of the spatial axes.
func (c *Ctx) atenUpsample(scalesAt int) {
	s := c.Shape(0)
	if !c.rankFrom(0, 3) {
		return
	}
	if !s.Ranked {
		c.OutTensor(0, c.DType(0), s)
		return
	}
	n := len(s.Dims) - 2
	out := slices.Clone(s.Dims)
	for i := range n {
		out[2+i] = symbolic.Unknown()
	}
	if c.filled(1) {
		size := c.ShapeFrom(1)
		if c.Failed() || size.Ranked && len(size.Dims) != n {
			c.Errorf("input 1 has %d sizes for %d axes", len(size.Dims), n)
			return
		}
		if size.Ranked {
			copy(out[2:], size.Dims)
		}
	} else if scales, ok := c.scales(scalesAt); ok && len(scales) == n {
		for i, by := range scales {
			out[2+i] = by.times(s.Dims[2+i])
		}
	}
	c.OutTensor(0, c.DType(0), graph.Dims(out...))
}

// wantInputs calls Errorf where one of the first n inputs is left out.
func (c *Ctx) wantInputs(n int) bool {
	for i := range n {
		if !c.Has(i) {
			c.Errorf("input %d is left out; the operator %q requires it", i, c.Str("operator", ""))
			return false
		}
	}
	return true
}

// embedding: weight [V, D…] at ids gives the ids' shape and D….
func (c *Ctx) embedding() {
	if !c.wantInputs(2) {
		return
	}
	w, ids := c.Shape(0), c.Shape(1)
	if !c.rankFrom(0, 1) {
		return
	}
	if !w.Ranked || !ids.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	dims := append(append([]symbolic.Expr(nil), ids.Dims...), w.Dims[1:]...)
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}

// embeddingBackward: inputs are the gradient, the ids and the number of rows.
func (c *Ctx) embeddingBackward() {
	if !c.wantInputs(3) {
		return
	}
	if !c.rankFrom(0, 1) {
		return
	}
	rows := symbolic.Unknown()
	if e, ok := c.Contents(2); ok && len(e) == 1 {
		rows = e[0]
	}
	if n, ok := rows.Const(); ok && n < 0 {
		c.Errorf("input 2 is %d; the number of rows cannot be negative", n)
		return
	}
	c.OutTensor(0, c.DType(0), graph.Dims(rows, dimAt(c.Shape(0), -1)))
}
