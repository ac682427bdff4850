package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// QLinearConv is a convolution of quantized numbers: with X = x - x_zero_point and W = w -
// w_zero_point,
//
//	y = saturate(round((conv(X, W) + B) * x_scale*w_scale/y_scale) + y_zero_point)
//
// The sum is an exact 32-bit integer; padding adds zeros to X. The weights' scale and zero
// point may be one for each output channel.
// https://onnx.ai/onnx/operators/onnx__QLinearConv.html

type qConvKernel struct {
	group                    int
	strides, dilations, pads []int // as given; nil means the default
	autoPad                  string
	kernelShape              []int
	types                    [3]graph.DType // of x, w and y

	x, w, y        []byte
	in, out, kern  []int // spatial dims
	stride, dil    []int
	begin          []int
	channels       int // of x
	outs           int // channels of y
	perGroup       int // channels of x that a channel of y sees
	outsOf         int // channels of y in a group
	xZero, yZero   int32
	wZeros         []int32
	wScales        []float32
	factors        []float32 // x_scale*w_scale/y_scale
	bias           []int32
	rows, taps     int // of a plane of y: lines along the last axis; of the kernel: positions
	weights        []int32
	inSize, outLen int
}

func newQLinearConv(p *executor.Prep) (executor.Kernel, error) {
	n := p.Node
	k := &qConvKernel{group: int(n.Int("group", 1)), autoPad: n.Str("auto_pad", "NOTSET"),
		types:   [3]graph.DType{p.DType(0), p.DType(3), p.Out[0]},
		strides: qConvInts(n, "strides"), dilations: qConvInts(n, "dilations"), pads: qConvInts(n, "pads"),
		kernelShape: qConvInts(n, "kernel_shape")}
	for _, d := range k.types {
		if d != graph.Int8 && d != graph.Uint8 {
			return nil, unsupportedTypes(p)
		}
	}
	for _, in := range []struct {
		index int
		want  graph.DType
	}{{1, graph.Float32}, {2, k.types[0]}, {4, graph.Float32},
		{5, k.types[1]}, {6, graph.Float32}, {7, k.types[2]}} {
		if got := p.DType(in.index); got != in.want {
			return nil, p.Errorf("input %d has type %v, wanted %v", in.index, got, in.want)
		}
	}
	if p.Has(8) && p.DType(8) != graph.Int32 {
		return nil, p.Errorf("input 8, the bias, has type %v, wanted int32", p.DType(8))
	}
	if k.group < 1 {
		return nil, p.Errorf("attribute group is %d, wanted 1 or more", k.group)
	}
	for _, v := range append(append([]int(nil), k.strides...), k.dilations...) {
		if v < 1 || v > 1<<31 {
			return nil, p.Errorf("attributes strides %v and dilations %v, wanted 1 or more", k.strides, k.dilations)
		}
	}
	for _, v := range k.pads {
		if v < -1<<31 || v > 1<<31 {
			return nil, p.Errorf("attribute pads is %v, wanted entries of at most 32 bits", k.pads)
		}
	}
	switch k.autoPad {
	case "NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER":
		return k, nil
	}
	return nil, p.Errorf("attribute auto_pad is %q, wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER", k.autoPad)
}

func qConvInts(n *graph.Node, name string) []int {
	var out []int
	for _, v := range n.IntList(name, nil) {
		out = append(out, int(v))
	}
	return out
}

// Workspace has the weights less their zero points.
func (k *qConvKernel) Workspace(in, out [][]int) int { return executor.RoundUp(4 * product(in[3])) }

// Run checks the operands and convolves.
func (k *qConvKernel) Run(c *executor.Ctx) error {
	x, w := c.In(0), c.In(3)
	if err := k.shapes(c, x, w); err != nil {
		return err
	}
	if err := k.numbers(c); err != nil {
		return err
	}
	var buf [16]int
	shape := append(buf[:0], x.Shape[0], k.outs)
	y := c.Out(0, append(shape, k.out...)...)
	k.x, k.w, k.y = x.Data, w.Data, y.Data
	k.weights = executor.ScratchOf[int32](c, w.Len())
	loadInts(k.weights, k.types[1], k.w, 0)
	per := k.perGroup * k.taps
	for m := range k.outs {
		z := k.wZeros[m%len(k.wZeros)]
		for i := range per {
			k.weights[m*per+i] -= z
		}
	}
	if y.Len() > 0 {
		work := k.outLen * (per + 1)
		c.Parallel(x.Shape[0]*k.outs*k.rows, max(1, (1<<15)/work), k)
	}
	return nil
}

// shapes computes the geometry.
func (k *qConvKernel) shapes(c *executor.Ctx, x, w *executor.Tensor) error {
	rank := x.Rank()
	if rank < 3 || rank > 10 || w.Rank() != rank {
		return c.Errorf("the data is %v, the weights %v, wanted the same rank from 3 on", x, w)
	}
	k.channels, k.outs, k.perGroup = x.Shape[1], w.Shape[0], w.Shape[1]
	k.outsOf = k.outs / k.group
	if k.perGroup*k.group != k.channels || k.outsOf*k.group != k.outs {
		return c.Errorf("the data is %v, the weights %v, which does not fit attribute group %d", x, w, k.group)
	}
	k.in, k.kern = x.Shape[2:], w.Shape[2:]
	n := rank - 2
	if len(k.kernelShape) > 0 && !sameDims(k.kernelShape, k.kern) {
		return c.Errorf("attribute kernel_shape is %v, the weights are %v", k.kernelShape, w)
	}
	for _, a := range [][]int{k.strides, k.dilations} {
		if len(a) != 0 && len(a) != n {
			return c.Errorf("attributes strides %v and dilations %v, wanted %d entries", k.strides, k.dilations, n)
		}
	}
	if len(k.pads) != 0 && len(k.pads) != 2*n {
		return c.Errorf("attribute pads is %v, wanted %d entries", k.pads, 2*n)
	}
	k.stride, k.dil, k.begin, k.out = k.stride[:0], k.dil[:0], k.begin[:0], k.out[:0]
	for i := range n {
		if err := k.axis(c, i, n); err != nil {
			return err
		}
	}
	k.outLen = k.out[n-1]
	k.rows, k.taps, k.inSize = product(k.out[:n-1]), product(k.kern), product(k.in)
	return nil
}

// axis computes the geometry of a spatial axis.
func (k *qConvKernel) axis(c *executor.Ctx, i, n int) error {
	s, d, begin, end := 1, 1, 0, 0
	if len(k.strides) > 0 {
		s = k.strides[i]
	}
	if len(k.dilations) > 0 {
		d = k.dilations[i]
	}
	if len(k.pads) > 0 && (k.autoPad == "NOTSET" || k.autoPad == "") {
		begin, end = k.pads[i], k.pads[n+i]
	}
	extent := (k.kern[i]-1)*d + 1
	var out int
	switch k.autoPad {
	case "SAME_UPPER", "SAME_LOWER":
		out = (k.in[i] + s - 1) / s
		pad := max((out-1)*s+extent-k.in[i], 0)
		if begin = pad / 2; k.autoPad == "SAME_LOWER" {
			begin = pad - pad/2
		}
	default:
		room := k.in[i] + begin + end - extent
		if out = room/s + 1; room < 0 || k.kern[i] < 1 {
			return c.Errorf("spatial axis %d: size %d with pads %d and %d is smaller than the kernel's extent %d",
				i, k.in[i], begin, end, extent)
		}
	}
	k.stride, k.dil, k.begin, k.out = append(k.stride, s), append(k.dil, d), append(k.begin, begin), append(k.out, out)
	return nil
}

// numbers reads scales, zero points and the bias.
func (k *qConvKernel) numbers(c *executor.Ctx) error {
	for _, i := range []int{1, 2, 6, 7} {
		if c.In(i).Len() != 1 {
			return c.Errorf("input %d is %v, wanted one number", i, c.In(i))
		}
	}
	for _, i := range []int{4, 5} {
		if n := c.In(i).Len(); n != 1 && n != k.outs {
			return c.Errorf("input %d is %v, wanted 1 or %d numbers", i, c.In(i), k.outs)
		}
	}
	var z [1]int32
	loadInts(z[:], k.types[0], c.In(2).Data, 0)
	k.xZero = z[0]
	loadInts(z[:], k.types[2], c.In(7).Data, 0)
	k.yZero = z[0]
	k.wZeros = appendInts(k.wZeros[:0], c.In(5))
	k.wScales = quantFloats(k.wScales, c.In(4))
	k.factors = k.factors[:0]
	xs, ys := executor.Of[float32](c.In(1))[0], executor.Of[float32](c.In(6))[0]
	for m := range k.outs {
		k.factors = append(k.factors, xs*k.wScales[m%len(k.wScales)]/ys)
	}
	if k.bias = nil; c.In(8) != nil {
		if c.In(8).Len() != k.outs {
			return c.Errorf("input 8, the bias, is %v, wanted %d numbers", c.In(8), k.outs)
		}
		k.bias = executor.Of[int32](c.In(8))
	}
	return nil
}

// Range computes lines of y along the last axis.
func (k *qConvKernel) Range(lo, hi int) {
	var acc [chunkLen]int32
	for line := lo; line < hi; line++ {
		m := line / k.rows % k.outs
		for at := 0; at < k.outLen; at += chunkLen {
			part := acc[:min(chunkLen, k.outLen-at)]
			var start int32
			if k.bias != nil {
				start = k.bias[m]
			}
			for i := range part {
				part[i] = start
			}
			k.line(part, line, at)
			for i, v := range part {
				part[i] = roundEven(float32(v)*k.factors[m]) + k.yZero
			}
			storeSaturated(k.types[2], k.y, line*k.outLen+at, part)
		}
	}
}

// line adds the products of all positions of the kernel to a part of a line that starts at
// place at.
func (k *qConvKernel) line(acc []int32, line, at int) {
	n := len(k.in)
	batch, m, row := line/k.rows/k.outs, line/k.rows%k.outs, line%k.rows
	var place [8]int // on all axes but the last
	for i := n - 2; i >= 0; i-- {
		place[i] = row % k.out[i] * k.stride[i]
		row /= k.out[i]
	}
	group := m / k.outsOf
	for tap := range k.taps {
		base, rest, inside := 0, tap/k.kern[n-1], true
		size := k.in[n-1]
		for i := n - 2; i >= 0; i-- {
			p := place[i] - k.begin[i] + rest%k.kern[i]*k.dil[i]
			rest /= k.kern[i]
			inside = inside && p >= 0 && p < k.in[i]
			base += p * size
			size *= k.in[i]
		}
		if !inside {
			continue
		}
		first := at*k.stride[n-1] - k.begin[n-1] + tap%k.kern[n-1]*k.dil[n-1]
		for ch := range k.perGroup {
			w := k.weights[(m*k.perGroup+ch)*k.taps+tap]
			from := (batch*k.channels+group*k.perGroup+ch)*k.inSize + base
			k.tap(acc, from, first, w)
		}
	}
}

// tap adds w*X[first], w*X[first+stride], ... to acc, where these lie inside the line of x that
// starts at element from.
func (k *qConvKernel) tap(acc []int32, from, first int, w int32) {
	s, size := k.stride[len(k.in)-1], k.in[len(k.in)-1]
	lo, hi := 0, len(acc)
	if first < 0 {
		lo = (-first + s - 1) / s
	}
	if last := size - 1 - first; last < 0 {
		hi = 0
	} else {
		hi = min(hi, last/s+1)
	}
	if lo >= hi {
		return
	}
	at := from + first + lo*s
	if k.types[0] == graph.Int8 {
		addTaps(acc[lo:hi], executor.Cast[int8](k.x)[at:], s, k.xZero, w)
	} else {
		addTaps(acc[lo:hi], k.x[at:], s, k.xZero, w)
	}
}

func addTaps[S int8 | uint8](acc []int32, x []S, stride int, zero, w int32) {
	if stride == 1 {
		x = x[:len(acc)]
		for i := range acc {
			acc[i] += w * (int32(x[i]) - zero)
		}
		return
	}
	for i := range acc {
		acc[i] += w * (int32(x[i*stride]) - zero)
	}
}
