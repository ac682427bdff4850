package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// atenRow is the gradient of a function of PyTorch.
type atenRow struct {
	// expand replaces the node by operators of ONNX, whose rules are then used. It returns nil, for the reason in
	// unless, where these cannot express the node.
	expand func(c *Ctx) []Value
	unless string
	rule   Rule
	// none says why no gradient flows through the function.
	none string
}

const (
	notConstant = "its settings are not constants of the file, or its sizes are not known before the run"
	fusedSDPA   = "PyTorch's fused attention is written only with ORTMODULE_ATEN_SDPA_FALLBACK; export without it"
)

// atenTable has the functions of op.ATenFunctions, but for those of backward halves.
var atenTable map[string]atenRow

// init fills the table, which rules read.
func init() {
	atenTable = map[string]atenRow{
		"_adaptive_avg_pool2d":                    {expand: expandAdaptivePool, unless: notConstant},
		"_scaled_dot_product_efficient_attention": {unless: fusedSDPA},
		"argmax":                  {none: "it gives places"},
		"avg_pool2d":              {expand: expandATenAvgPool, unless: notConstant},
		"bitwise_or.Tensor":       {none: "its operands are bits"},
		"diagonal":                {expand: expandDiagonal, unless: notConstant},
		"embedding":               {rule: embeddingRule},
		"max":                     {expand: expandExtreme("ReduceMax")},
		"max.dim":                 {expand: expandExtremeAlong("ArgMax"), unless: notConstant},
		"max_pool2d_with_indices": {expand: expandATenMaxPool, unless: notConstant},
		"min":                     {expand: expandExtreme("ReduceMin")},
		"min.dim":                 {expand: expandExtremeAlong("ArgMin"), unless: notConstant},
		"multinomial":             {none: "it gives the numbers of classes"},
		"native_group_norm":       {expand: expandATenGroupNorm, unless: notConstant},
		"numpy_T":                 {expand: expandReversed},
		"unfold":                  {expand: expandUnfold, unless: notConstant},
		"upsample_bicubic2d.vec":  {expand: expandUpsample("cubic"), unless: notConstant},
		"upsample_bilinear2d.vec": {expand: expandUpsample("linear"), unless: notConstant},
		"upsample_nearest1d.vec":  {expand: expandUpsample("nearest"), unless: notConstant},
		"upsample_nearest2d.vec":  {expand: expandUpsample("nearest"), unless: notConstant},
		"upsample_nearest3d.vec":  {expand: expandUpsample("nearest"), unless: notConstant},
	}
}

// atenRule: embedding has the rule of Gather; the other functions are expanded before.
func atenRule(c *Ctx) {
	name := op.ATenFunction(c.Node)
	switch row, ok := atenTable[name]; {
	case !ok:
		c.Unsupported("PyTorch's operator %q", name)
	case row.rule != nil:
		row.rule(c)
	case row.none != "":
		c.Set(0, None)
	default:
		c.Unsupported("PyTorch's operator %q: %s", name, row.unless)
	}
}

// expandATen replaces a function of PyTorch.
func expandATen(c *Ctx) []Value {
	expand := atenTable[op.ATenFunction(c.Node)].expand
	if expand == nil {
		return nil
	}
	c.forgetUnread()
	return expand(c)
}

// forgetUnread leaves out the outputs that no node reads, so that no operator has to make them.
func (c *Ctx) forgetUnread() {
	for i, v := range c.Node.Outputs {
		if i == 0 || v == None || c.j.g.Values[v].Output {
			continue
		}
		if !slices.ContainsFunc(c.j.g.Nodes, func(n *graph.Node) bool {
			return slices.Contains(n.Inputs, v) || slices.Contains(n.Captures(), v)
		}) {
			c.j.g.Values[v].Def, c.Node.Outputs[i] = graph.NoNode, None
		}
	}
}

// wanted reports whether an output is left after forgetUnread.
func (c *Ctx) wanted(i int) bool { return c.Node.Output(i) != None }

// embeddingRule: that of Gather, with no gradient for the padding row. Stashes the indices.
func embeddingRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	if byCount, ok := c.oneInt(3, 0); !ok || byCount != 0 {
		c.Unsupported("scale_grad_by_freq")
	}
	padding, ok := c.oneInt(2, -1)
	if !ok {
		c.Unsupported("its padding_idx is not known before the run")
	}
	x := c.In(0)
	dx := c.ungather(c.Grad(0), x, c.In(1), 0)
	if padding >= 0 {
		rest := c.vector(append([]extent{number(1)}, c.extentsOf(x, 1)...))
		at := c.j.constant(graph.Int64Tensor("", []int64{1, 1}, padding))
		dx = c.scatterND(dx, at, c.zerosOf(rest, dx), false)
	}
	c.Set(0, dx)
}

// oneInt reads an input of one element, or the default where it is left out.
func (c *Ctx) oneInt(i int, def int64) (int64, bool) {
	if !c.Has(i) {
		return def, true
	}
	ints, ok := c.intsOf(c.In(i))
	if !ok || len(ints) != 1 {
		return 0, false
	}
	return ints[0], true
}

// intPair reads two integers, or one that stands for both; def stands for an input that is left out or empty.
func (c *Ctx) intPair(i int, def []int64) ([]int64, bool) {
	if !c.Has(i) {
		return def, true
	}
	ints, ok := c.intsOf(c.In(i))
	switch {
	case !ok || len(ints) > 2:
		return nil, false
	case len(ints) == 0:
		return def, true
	case len(ints) == 1:
		return []int64{ints[0], ints[0]}, true
	}
	return ints, true
}

// atenWindow reads the window of a pool over X [N, C, H, W]; its dilations are at a slot above 0.
func (c *Ctx) atenWindow(dilations, ceil int) (Attrs, []int64, bool) {
	dims, ranked := c.Dims(c.In(0))
	kernel, ok := c.intPair(1, nil)
	if !ranked || len(dims) != 4 || !ok || kernel == nil {
		return nil, nil, false
	}
	strides, ok1 := c.intPair(2, kernel)
	pads, ok2 := c.intPair(3, []int64{0, 0})
	dilation, ok3 := []int64{1, 1}, true
	if dilations > 0 {
		dilation, ok3 = c.intPair(dilations, dilation)
	}
	up, ok4 := c.oneInt(ceil, 0)
	attrs := Attrs{A("ceil_mode", up), A("kernel_shape", kernel), A("pads", slices.Repeat(pads, 2)),
		A("strides", strides)}
	if slices.Max(dilation) > 1 {
		attrs = append(attrs, A("dilations", dilation))
	}
	return attrs, kernel, ok1 && ok2 && ok3 && ok4
}

// expandATenMaxPool: a MaxPool, whose indices count the elements of the whole tensor and not of a plane.
func expandATenMaxPool(c *Ctx) []Value {
	attrs, _, ok := c.atenWindow(4, 5)
	if !ok {
		return nil
	}
	if !c.wanted(1) {
		return []Value{c.Op("MaxPool", attrs, c.In(0))}
	}
	out := c.Ops("MaxPool", 2, attrs, c.In(0))
	return []Value{out[0], c.Op("Mod", nil, out[1], c.Mul(c.Dim(c.In(0), 2), c.Dim(c.In(0), 3)))}
}

// expandATenAvgPool: an AveragePool. A divisor scales the mean of all places under the window, with padding.
func expandATenAvgPool(c *Ctx) []Value {
	attrs, kernel, ok := c.atenWindow(0, 4)
	include, ok2 := c.oneInt(5, 1)
	divisor, ok3 := c.oneInt(6, 0)
	if !ok || !ok2 || !ok3 {
		return nil
	}
	if divisor == 0 {
		return []Value{c.Op("AveragePool", append(attrs, A("count_include_pad", include)), c.In(0))}
	}
	if up, _ := c.oneInt(4, 0); up != 0 {
		return nil
	}
	mean := c.Op("AveragePool", append(attrs, A("count_include_pad", int64(1))), c.In(0))
	return []Value{c.Mul(mean, c.Scalar(float64(kernel[0]*kernel[1])/float64(divisor), mean))}
}

// expandAdaptivePool: a mean of planes, a pool with windows of equal size, or products with matrices that average
// rows and columns.
func expandAdaptivePool(c *Ctx) []Value {
	dims, _ := c.Dims(c.In(0))
	size, ok := c.intPair(1, nil)
	if !ok || len(size) != 2 || len(dims) != 4 {
		return nil
	}
	if size[0] == 1 && size[1] == 1 {
		return []Value{c.Op("GlobalAveragePool", nil, c.In(0))}
	}
	h, ok1 := dims[2].Const()
	w, ok2 := dims[3].Const()
	if !ok1 || !ok2 || size[0] < 1 || size[1] < 1 || h < 1 || w < 1 {
		return nil
	}
	if h%size[0] == 0 && w%size[1] == 0 {
		kernel := []int64{h / size[0], w / size[1]}
		return []Value{c.Op("AveragePool", Attrs{A("kernel_shape", kernel), A("strides", kernel)}, c.In(0))}
	}
	y := c.MatMul(c.means(h, size[0], c.In(0)), c.In(0))
	return []Value{c.MatMul(y, c.Transpose(c.means(w, size[1], c.In(0)), 1, 0))}
}

// means is the matrix [out, in] that averages, for place o, the elements from floor(o*in/out) to ceil((o+1)*in/out).
func (c *Ctx) means(in, out int64, like Value) Value {
	d := c.DType(like)
	var raw []byte
	for o := range out {
		lo, hi := o*in/out, ((o+1)*in+out-1)/out
		for i := range in {
			x := 0.0
			if i >= lo && i < hi {
				x = 1 / float64(hi-lo)
			}
			one, err := scalarBytes(d, x)
			c.must(err)
			raw = append(raw, one...)
		}
	}
	return c.j.constant(&graph.TensorData{DType: d, Dims: []int64{out, in}, Source: graph.Raw(raw)})
}

// expandDiagonal: the elements of planes at steps of a row and one.
func expandDiagonal(c *Ctx) []Value {
	x := c.In(0)
	dims, ranked := c.Dims(x)
	offset, ok := c.oneInt(1, 0)
	a, ok1 := c.oneInt(2, 0)
	b, ok2 := c.oneInt(3, 1)
	if !ranked || len(dims) < 2 || !ok || !ok1 || !ok2 {
		return nil
	}
	rank := int64(len(dims))
	a, b = c.Axis(a, len(dims)), c.Axis(b, len(dims))
	h, ok1 := dims[a].Const()
	w, ok2 := dims[b].Const()
	if !ok1 || !ok2 || a == b {
		return nil
	}
	n, first := min(h, w-offset), offset
	if offset < 0 {
		n, first = min(h+offset, w), -offset*w
	}
	if n <= 0 {
		return nil
	}
	var perm []int64
	var lead []extent
	for i := range rank {
		if i != a && i != b {
			perm, lead = append(perm, i), append(lead, c.extentOf(x, i))
		}
	}
	rows := c.Transpose(x, append(perm, a, b)...)
	flat := c.reshapeTo(rows, append(lead, number(h*w)))
	return []Value{c.Op("Slice", nil, flat, c.Vector(first), c.Vector(first+(n-1)*(w+1)+1), c.Vector(rank-2),
		c.Vector(w+1))}
}

// expandExtreme: a reduction over all elements.
func expandExtreme(reduce string) func(*Ctx) []Value {
	return func(c *Ctx) []Value { return []Value{c.Op(reduce, Attrs{A("keepdims", int64(0))}, c.In(0))} }
}

// expandExtremeAlong: the first place of the extreme, and the element there.
func expandExtremeAlong(arg string) func(*Ctx) []Value {
	return func(c *Ctx) []Value {
		dims, ranked := c.Dims(c.In(0))
		axis, ok := c.oneInt(1, 0)
		keep, ok2 := c.oneInt(2, 0)
		if !ranked || len(dims) == 0 || !ok || !ok2 {
			return nil
		}
		axis = c.Axis(axis, len(dims))
		at := c.Op(arg, Attrs{A("axis", axis), A("keepdims", int64(1))}, c.In(0))
		out := []Value{c.Op("GatherElements", Attrs{A("axis", axis)}, c.In(0), at)}
		if keep == 0 {
			out[0] = c.Squeeze(out[0], axis)
		}
		if c.wanted(1) {
			if keep == 0 {
				at = c.Squeeze(at, axis)
			}
			out = append(out, at)
		}
		return out
	}
}

// expandATenGroupNorm: groups lie as channels of an InstanceNormalization; weights and biases are by channel.
func expandATenGroupNorm(c *Ctx) []Value {
	x := c.In(0)
	dims, ranked := c.Dims(x)
	groups, ok := c.oneInt(6, 1)
	epsilon, ok2 := c.constantNumber(c.In(7))
	if !ranked || len(dims) < 2 || !ok || !ok2 || c.wanted(1) || c.wanted(2) {
		return nil
	}
	shape := c.Vector(groups)
	y := c.Op("InstanceNormalization", Attrs{A("epsilon", float32(epsilon))}, c.Reshape(x, c.Vector(0, groups, -1)),
		c.filled(1, shape, x), c.filled(0, shape, x))
	y = c.reshapeTo(y, c.extentsOf(x, 0))
	return []Value{c.Add(c.Mul(y, c.alongChannels(c.In(1), len(dims))), c.alongChannels(c.In(2), len(dims)))}
}

// constantNumber returns the number in a value, or in the one that a Cast converts to it.
func (c *Ctx) constantNumber(v Value) (float64, bool) {
	for v != None {
		if x, ok := c.mathConstant(v); ok {
			return x, true
		}
		def := c.j.g.Values[v].Def
		if def == graph.NoNode || !opInfo(c.j.g.Nodes[def]).Has(op.CastRole) {
			return 0, false
		}
		v = c.j.g.Nodes[def].Input(0)
	}
	return 0, false
}

// expandReversed: a Transpose that reverses the axes.
func expandReversed(c *Ctx) []Value { return []Value{c.Op("Transpose", nil, c.In(0))} }

// expandUnfold: a Gather of the pieces, whose elements become the last axis.
func expandUnfold(c *Ctx) []Value {
	dims, ranked := c.Dims(c.In(0))
	axis, ok := c.oneInt(1, 0)
	size, ok1 := c.oneInt(2, 1)
	step, ok2 := c.oneInt(3, 1)
	if !ranked || len(dims) == 0 || !ok || !ok1 || !ok2 {
		return nil
	}
	axis = c.Axis(axis, len(dims))
	n, ok := dims[axis].Const()
	if !ok || size < 1 || size > n || step < 1 {
		return nil
	}
	var at []int64
	count := (n-size)/step + 1
	for i := range count {
		for k := range size {
			at = append(at, i*step+k)
		}
	}
	places := c.j.constant(graph.Int64Tensor("", []int64{count, size}, at...))
	pieces := c.Op("Gather", Attrs{A("axis", axis)}, c.In(0), places)
	perm := axesFrom(0, int64(len(dims))+1)
	perm = append(slices.Delete(perm, int(axis)+1, int(axis)+2), axis+1)
	return []Value{c.Transpose(pieces, perm...)}
}

// expandUpsample: a Resize of the spatial axes, by scales or to sizes.
func expandUpsample(mode string) func(*Ctx) []Value {
	return func(c *Ctx) []Value {
		x, scalesAt := c.In(0), 2
		coordinates := "asymmetric"
		if mode != "nearest" {
			scalesAt = 3
			align, ok := c.oneInt(2, 0)
			if !ok {
				return nil
			}
			if coordinates = "half_pixel"; align != 0 {
				coordinates = "align_corners"
			}
		}
		attrs := Attrs{A("coordinate_transformation_mode", coordinates), A("mode", mode)}
		switch mode {
		case "nearest":
			attrs = append(attrs, A("nearest_mode", "floor"))
		case "cubic":
			attrs = append(attrs, A("cubic_coeff_a", float32(-0.75)))
		}
		c.Need(13)
		if n, known := c.length(c.In(1)); c.Has(1) && !(known && n == 0) {
			sizes := c.joinInts(c.Dim(x, 0), c.Dim(x, 1), c.In(1))
			return []Value{c.Op("Resize", attrs, x, None, None, sizes)}
		}
		list := c.knownFloats(c.In(scalesAt))
		if list == nil {
			return nil
		}
		scales := []float32{1, 1}
		for _, s := range list {
			scales = append(scales, float32(s))
		}
		return []Value{c.Op("Resize", attrs, x, None, c.floatVector(scales...))}
	}
}
