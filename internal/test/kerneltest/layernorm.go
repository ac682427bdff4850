package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(layerNormCases)
	register(layerNormGradCases)
}

// normTestEpsilon is the epsilon of all cases, a float32.
const normTestEpsilon = 0x1p-10

// normedRows returns x, of rows of n elements, less the mean of each row unless simple, over its
// deviation from that, with the means and inverse deviations.
func normedRows(x []float64, n int, simple bool, epsilon float64) (y, mean, inv []float64) {
	y = make([]float64, len(x))
	for lo := 0; lo < len(x); lo += n {
		m, v := 0.0, 0.0
		for _, a := range x[lo : lo+n] {
			m += a / float64(n)
		}
		if simple {
			m = 0
		}
		for _, a := range x[lo : lo+n] {
			v += (a - m) * (a - m) / float64(n)
		}
		r := 1 / math.Sqrt(v+epsilon)
		for i, a := range x[lo : lo+n] {
			y[lo+i] = (a - m) * r
		}
		mean, inv = append(mean, m), append(inv, r)
	}
	return y, mean, inv
}

// normStretched returns the elements of an operand of the given shape, stretched to another.
func normStretched(v []float64, from, to []int) []float64 {
	out := make([]float64, reduceLen(to))
	for i := range out {
		at, rest, step := 0, i, 1
		for a := len(to) - 1; a >= 0; a-- {
			if j := a - (len(to) - len(from)); j >= 0 {
				if from[j] != 1 {
					at += rest % to[a] * step
				}
				step *= from[j]
			}
			rest /= to[a]
		}
		out[i] = v[at]
	}
	return out
}

// layerTest describes a case of LayerNormalization or a relative.
type layerTest struct {
	kind        graph.Kind
	opset       int
	dtype, stat graph.DType
	scaleType   graph.DType
	shape       []int
	axis        int
	scale, bias []int // shapes; nil if left out
}

func (l layerTest) build(name string) Case {
	simple := l.kind != op.LayerNormalization
	axis := (l.axis + len(l.shape)) % len(l.shape)
	x := reduceValues(reduceLen(l.shape), 41)
	y, mean, inv := normedRows(x, max(reduceLen(l.shape[axis:]), 1), simple, normTestEpsilon)
	if l.scaleType == graph.Undefined {
		l.scaleType = l.dtype
	}
	c := Case{Name: name, Kind: l.kind, Opset: l.opset, In: []*executor.Tensor{reduceTensor(l.dtype, l.shape, x)},
		Attrs: []graph.Attr{Attr("axis", int64(l.axis)), Attr("epsilon", float32(normTestEpsilon))},
		Out:   []graph.DType{l.scaleType}}
	for i, s := range [][]int{l.scale, l.bias} {
		if s == nil {
			continue
		}
		v := reduceValues(reduceLen(s), uint64(42+i))
		c.In = append(c.In, reduceTensor(l.scaleType, s, v))
		for j, w := range normStretched(v, s, l.shape) {
			if i == 0 {
				y[j] *= w
			} else {
				y[j] += w
			}
		}
	}
	c.Want = []*executor.Tensor{reduceTensor(l.scaleType, l.shape, y)}
	if l.stat != graph.Undefined {
		stats := append([]int(nil), l.shape...)
		for i := axis; i < len(stats); i++ {
			stats[i] = 1
		}
		if !simple {
			c.Out, c.Want = append(c.Out, l.stat), append(c.Want, reduceTensor(l.stat, stats, mean))
		}
		c.Out, c.Want = append(c.Out, l.stat), append(c.Want, reduceTensor(l.stat, stats, inv))
	}
	c.Tol = math.Max(reduceTol(l.dtype), reduceTol(l.scaleType))
	if l.stat != graph.Undefined {
		c.Tol = math.Max(c.Tol, reduceTol(l.stat))
	}
	return c
}

func layerNormCases() []Case {
	var cases []Case
	for _, k := range []graph.Kind{op.LayerNormalization, op.RMSNormalization, op.SimplifiedLayerNormalization} {
		base := layerTest{kind: k, dtype: graph.Float32}
		if k != op.RMSNormalization {
			base.stat = graph.Float32
		}
		for _, s := range []struct {
			shape []int
			axis  int
			scale []int
		}{
			{[]int{6}, 0, []int{6}}, {[]int{3, 5}, -1, []int{5}}, {[]int{2, 3, 4}, 1, []int{3, 4}},
			{[]int{2, 3, 4}, 0, []int{2, 3, 4}},
			{[]int{2, 3, 4}, -1, []int{1, 1, 4}}, {[]int{2, 3, 4}, 1, []int{4}}, {[]int{2, 3, 4}, 2, []int{2, 1, 4}},
			{[]int{2, 3, 4}, -1, []int{}}, {[]int{0, 4}, 1, []int{4}}, {[]int{300, 96}, -1, []int{96}},
			{[]int{3, 5000}, -1, []int{5000}},
		} {
			l := base
			l.shape, l.axis, l.scale = s.shape, s.axis, s.scale
			cases = append(cases, l.build(fmt.Sprintf("%v from %d, scale %v", s.shape, s.axis, s.scale)))
			if k == op.LayerNormalization {
				l.bias = s.scale
				cases = append(cases, l.build(fmt.Sprintf("%v from %d, scale and bias %v", s.shape, s.axis, s.scale)))
			}
		}
		for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16} {
			l := base
			l.dtype, l.shape, l.axis, l.scale = d, []int{4, 7}, -1, []int{7}
			cases = append(cases, l.build(d.String()))
		}
		bad := base
		bad.shape, bad.axis, bad.scale = []int{2, 3}, -1, []int{3}
		c := bad.build("scale does not fit")
		c.In[1], c.Want, c.Fails = reduceTensor(graph.Float32, []int{2}, []float64{1, 1}), nil, "cannot be stretched"
		cases = append(cases, c)
	}
	mixed := layerTest{kind: op.LayerNormalization, opset: 16, dtype: graph.Float16, scaleType: graph.Float32,
		stat:  graph.Float32,
		shape: []int{3, 8}, axis: -1, scale: []int{8}, bias: []int{8}}
	cases = append(cases, mixed.build("half input, float scale"))
	mixed.kind, mixed.opset, mixed.dtype, mixed.scaleType, mixed.bias = op.SimplifiedLayerNormalization, 0,
		graph.Float32, graph.BFloat16, nil
	return append(cases, mixed.build("float input, bfloat16 scale"))
}

// layerNormGradCases differentiate the norm by its Jacobian: ∂y[j]/∂x[i] = r*([i=j] - 1/n -
// h[i]*h[j]/n), without 1/n if simplified.
func layerNormGradCases() []Case {
	var cases []Case
	for _, k := range []graph.Kind{op.LayerNormalizationGrad, op.SimplifiedLayerNormalizationGrad,
		op.InvertibleLayerNormalizationGrad, op.LayerNormalizationGradDeeploy} {
		for _, s := range []struct {
			shape []int
			axis  int
		}{{[]int{5}, 0}, {[]int{3, 4}, -1}, {[]int{2, 3, 4}, 1}, {[]int{0, 4}, 1}, {[]int{1000, 33}, 1}} {
			cases = append(cases, layerNormGradCase(k, graph.Float32, s.shape, s.axis))
		}
		for _, d := range []graph.DType{graph.Float64, graph.Float16} {
			cases = append(cases, layerNormGradCase(k, d, []int{20, 6}, -1))
		}
		bad := layerNormGradCase(k, graph.Float32, []int{3, 4}, -1)
		bad.Name, bad.Want, bad.Fails = "unequal shapes", nil, "the shapes must be equal"
		bad.In[0] = reduceTensor(graph.Float32, []int{4, 3}, make([]float64, 12))
		cases = append(cases, bad)
		if k == op.LayerNormalizationGradDeeploy {
			continue // it has no statistics
		}
		short := layerNormGradCase(k, graph.Float32, []int{3, 4}, -1)
		short.Name, short.Want, short.Fails = "statistics do not fit", nil, "wanted 3 elements"
		short.In[len(short.In)-1] = reduceTensor(graph.Float32, []int{2}, []float64{1, 1})
		cases = append(cases, short)
	}
	return cases
}

func layerNormGradCase(k graph.Kind, d graph.DType, shape []int, axis int) Case {
	n := reduceLen(shape[(axis+len(shape))%len(shape):])
	x, dy, scale, bias := reduceValues(reduceLen(shape), 51), reduceValues(reduceLen(shape), 52), reduceValues(n, 53),
		reduceValues(n, 54)
	for i := range scale {
		scale[i] = 1 + scale[i]/4
	}
	simple := k == op.SimplifiedLayerNormalizationGrad
	h, mean, inv := normedRows(x, n, simple, normTestEpsilon)
	dx, dscale, dbias := make([]float64, len(x)), make([]float64, n), make([]float64, n)
	one := 1.0
	if simple {
		one = 0
	}
	for lo := 0; lo < len(x); lo += n {
		for i := range n {
			for j := range n {
				if g := dy[lo+j] * scale[j] * inv[lo/n]; i == j {
					dx[lo+i] += g
				}
				dx[lo+i] -= dy[lo+j] * scale[j] * inv[lo/n] * (one + h[lo+i]*h[lo+j]) / float64(n)
			}
			dscale[i] += dy[lo+i] * h[lo+i]
			dbias[i] += dy[lo+i]
		}
	}
	stat, tol := graph.Float32, 4e-5
	if d == graph.Float64 {
		stat = d
	}
	if d == graph.Float16 {
		tol = 1e-2
	}
	row, stats := shape[(axis+len(shape))%len(shape):], []int{len(mean)}
	vec := func(v []float64) *executor.Tensor { return reduceTensor(d, row, v) }
	c := Case{Name: fmt.Sprintf("%v %v from %d", d, shape, axis), Kind: k,
		Attrs: []graph.Attr{Attr("axis", int64(axis))}, Tol: tol,
		Out:  []graph.DType{d, d},
		In:   []*executor.Tensor{reduceTensor(d, shape, dy), reduceTensor(d, shape, x), vec(scale)},
		Want: []*executor.Tensor{reduceTensor(d, shape, dx), vec(dscale)}}
	switch k {
	case op.LayerNormalizationGrad:
		c.In = append(c.In, reduceTensor(stat, stats, mean))
	case op.InvertibleLayerNormalizationGrad:
		y := make([]float64, len(x))
		for i := range y {
			y[i] = h[i]*scale[i%n] + bias[i%n]
		}
		c.In[1] = reduceTensor(d, shape, y)
		c.In = append(c.In, vec(bias))
	}
	if k == op.LayerNormalizationGradDeeploy {
		c.In = append(c.In, vec(bias))
		c.Attrs = append(c.Attrs, Attr("epsilon", float32(normTestEpsilon)))
	} else {
		c.In = append(c.In, reduceTensor(stat, stats, inv))
	}
	if !simple {
		c.Out, c.Want = append(c.Out, d), append(c.Want, vec(dbias))
	}
	return c
}
