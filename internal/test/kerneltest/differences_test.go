package kerneltest_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// derivative is a gradient's case as the operator that it is the gradient of sees it.
type derivative struct {
	forward kerneltest.Case    // in float64
	wrt     []int              // by output of the gradient: the input of forward that it is of; -1: none
	dy      []*executor.Tensor // by output of forward: the gradient; nil: zero
}

// undo makes the derivative of a gradient's case; ok is false where a case says too little for that.
type undo func(c *kerneltest.Case) (d derivative, ok bool)

// epsilon is that of the norms' cases.
const epsilon = 0x1p-10

// undone are the gradients whose operators can be told from their cases.
var undone = map[graph.Kind]undo{
	op.GeluGrad:           activation(op.GeluMS, nil),
	op.GeluGradDeeploy:    activation(op.GeluMS, nil),
	op.FastGeluGrad:       activation(op.FastGelu, nil),
	op.QuickGeluGrad:      activation(op.QuickGelu, nil),
	op.BiasGeluGradDX:     activation(op.BiasGelu, nil),
	op.BiasFastGeluGradDX: activation(op.FastGelu, nil),
	op.ReluGrad:           activation(op.Relu, nil),
	op.LeakyReluGrad:      activation(op.LeakyRelu, nil),
	op.SigmoidGrad:        activation(op.Sigmoid, func(y float64) float64 { return math.Log(y / (1 - y)) }),
	op.TanhGrad:           activation(op.Tanh, math.Atanh),

	op.SoftmaxGrad:      softmax(op.Softmax, 12, math.Log),
	op.SoftmaxGrad13:    softmax(op.Softmax, 13, math.Log),
	op.LogSoftmaxGrad:   softmax(op.LogSoftmax, 12, nil),
	op.LogSoftmaxGrad13: softmax(op.LogSoftmax, 13, nil),

	op.LayerNormalizationGrad:           layerNorm(op.LayerNormalization),
	op.LayerNormalizationGradDeeploy:    layerNorm(op.LayerNormalization),
	op.SimplifiedLayerNormalizationGrad: layerNorm(op.SimplifiedLayerNormalization),
	op.InvertibleLayerNormalizationGrad: invertible,
	op.BatchNormalizationGrad:           batchNorm,

	op.ConvGrad:   whole(op.Conv, 0, []int{1, 2}, []int{0, 1, -1}),
	op.DivGrad:    whole(op.Div, 0, []int{1, 2}, []int{0, 1}),
	op.ResizeGrad: whole(op.Resize, 0, []int{1, -1, 3}, []int{0}),

	op.MaxPoolGrad:        pooled,
	op.GatherGrad:         gathered(op.Gather, 0, 2, 1),
	op.GatherNDGrad:       gathered(op.GatherND, 0, 2, 1),
	op.GatherElementsGrad: gathered(op.GatherElements, 1, 0, 2),
	op.SliceGrad:          gathered(op.Slice, 1, 0, 2, 3, 4, 5),

	op.SoftmaxCrossEntropyLossGrad:         loss(op.SoftmaxCrossEntropyLoss),
	op.SoftmaxCrossEntropyLossInternalGrad: loss(op.SoftmaxCrossEntropyLossInternal),
	op.SoftmaxCrossEntropyLossGradDeeploy:  unitLoss,
}

// TestDifferences holds what the cases of gradients want to differences of the operators' own
// results: (f(x+hv)-f(x-hv))/2h is the gradient times v, for directions v of several kinds. The
// operators are the CPU's in float64; their own cases are held by oracles of other kinds.
func TestDifferences(t *testing.T) {
	held := [op.NumKinds]int{}
	for _, c := range cases() {
		u := undone[c.Kind]
		if u == nil || c.Fails != "" || !smooth(c.Want) {
			continue
		}
		d, ok := u(&c)
		if !ok {
			continue
		}
		for i, input := range d.wrt {
			if i < len(c.Want) && c.Want[i] != nil && input >= 0 && c.Want[i].Len() > 0 {
				d.check(t, &c, i)
				held[c.Kind]++
			}
		}
	}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		require.Equal(t, kerneltest.OracleOf(k).By&kerneltest.Differences != 0, held[k] > 0,
			"op %s: differences hold %d of its outputs; internal/test/kerneltest/oracle_table.go says otherwise",
			op.Of(k).Name, held[k])
	}
}

// smooth reports whether gradients are numbers, with more digits than differences.
func smooth(want []*executor.Tensor) bool {
	for _, t := range want {
		if t == nil {
			continue
		}
		if t.DType.Bits() < 32 || slices.ContainsFunc(doubles(t), math.IsNaN) {
			return false
		}
	}
	return true
}

// check compares output i of a gradient with differences along two directions.
func (d *derivative) check(t *testing.T, c *kerneltest.Case, i int) {
	t.Helper()
	const h = 1e-5
	want, x := doubles(c.Want[i]), d.forward.In[d.wrt[i]]
	for seed := range 2 {
		total, size := 0.0, 1e-3
		v := make([]float64, len(want))
		for k := range v {
			v[k] = math.Sin(float64((k+1)*(7+4*seed) + seed))
			total, size = total+want[k]*v[k], size+math.Abs(want[k]*v[k])
		}
		got := (d.along(t, x, v, h) - d.along(t, x, v, -h)) / (2 * h)
		if !(math.Abs(got-total) <= 1e-4*size) {
			t.Errorf("%s: output %d: differences give %v, wanted %v", c.Label(), i, got, total)
		}
	}
}

// along is the sum of dy times the outputs where x is moved by h times v.
func (d *derivative) along(t *testing.T, x *executor.Tensor, v []float64, h float64) float64 {
	t.Helper()
	data := executor.Of[float64](x)
	was := slices.Clone(data)
	for k := range data {
		data[k] += h * v[k]
	}
	out, err := kerneltest.Run(cpu.Device{}, &d.forward, kerneltest.Setup{Threads: 1, Runs: 1})
	require.NoError(t, err, d.forward.Label())
	copy(data, was)
	sum := 0.0
	for i, y := range out {
		if y == nil || d.dy[i] == nil {
			continue
		}
		for k, g := range executor.Of[float64](d.dy[i]) {
			sum += g * executor.Of[float64](y)[k]
		}
	}
	return sum
}

// doubles returns the elements of a tensor of floats.
func doubles(t *executor.Tensor) []float64 {
	v := make([]float64, t.Len())
	for i := range v {
		v[i], _ = kerneltest.Float(t, i)
	}
	return v
}

// wide returns a tensor in float64 where it has floats; each element through f, unless that is nil.
func wide(t *executor.Tensor, f func(float64) float64) *executor.Tensor {
	if t == nil || !t.DType.IsFloat() {
		return t
	}
	v := doubles(t)
	for i := range v {
		if f != nil {
			v[i] = f(v[i])
		}
	}
	return executor.NewTensor(graph.Float64, t.Shape, v...)
}

// zeros returns a tensor of zeros.
func zeros(shape ...int) *executor.Tensor {
	t := &executor.Tensor{DType: graph.Float64, Shape: shape}
	return executor.NewTensor(graph.Float64, shape, make([]float64, t.Len())...)
}

// step makes a derivative of an operator of one output.
func step(k graph.Kind, dy *executor.Tensor, wrt []int, in ...*executor.Tensor) derivative {
	return derivative{wrt: wrt, dy: []*executor.Tensor{wide(dy, nil)}, forward: kerneltest.Case{
		Name: "differences", Kind: k, In: in, Out: []graph.DType{graph.Float64}}}
}

// activation is of dY, the operand or what f makes of the result, and perhaps a bias.
func activation(k graph.Kind, f func(float64) float64) undo {
	return func(c *kerneltest.Case) (derivative, bool) {
		in := []*executor.Tensor{wide(c.In[1], f)}
		if len(c.In) > 2 && c.In[2] != nil {
			in = append(in, wide(c.In[2], nil))
		}
		d := step(k, c.In[0], []int{0}, in...)
		if k == op.BiasGelu && len(in) < 2 {
			d.forward.Kind = op.GeluMS
		}
		d.forward.Attrs = c.Attrs
		return d, true
	}
}

// softmax is of dY and the result, of which f makes an operand.
func softmax(k graph.Kind, opset int, f func(float64) float64) undo {
	return func(c *kerneltest.Case) (derivative, bool) {
		d := step(k, c.In[0], []int{0}, wide(c.In[1], f))
		d.forward.Attrs, d.forward.Opset = c.Attrs, opset
		return d, true
	}
}

// layerNorm is of dY, X, the scale and statistics.
func layerNorm(k graph.Kind) undo {
	return func(c *kerneltest.Case) (derivative, bool) {
		in := []*executor.Tensor{wide(c.In[1], nil), wide(c.In[2], nil)}
		if k == op.LayerNormalization {
			in = append(in, zeros(c.In[2].Shape...))
		}
		d := step(k, c.In[0], []int{0, 1, 2}, in...)
		d.forward.Attrs = normAttrs(c, "axis")
		return d, c.In[1].Len() > 0
	}
}

// invertible is of dY, the result, scale, bias and the inverse of the deviation.
func invertible(c *kerneltest.Case) (derivative, bool) {
	y, scale, bias, inverse := doubles(c.In[1]), doubles(c.In[2]), doubles(c.In[3]), doubles(c.In[4])
	n := len(scale)
	for i := range y {
		y[i] = (y[i] - bias[i%n]) / scale[i%n] / inverse[i/n]
	}
	d := step(op.LayerNormalization, c.In[0], []int{0, 1, 2}, executor.NewTensor(graph.Float64, c.In[1].Shape, y...),
		wide(c.In[2], nil), wide(c.In[3], nil))
	d.forward.Attrs = normAttrs(c, "axis")
	return d, len(y) > 0
}

// batchNorm is of dY, X, the scale and statistics of the batch.
func batchNorm(c *kerneltest.Case) (derivative, bool) {
	n := c.In[2].Shape
	d := step(op.BatchNormalization, c.In[0], []int{0, 1, 2}, wide(c.In[1], nil), wide(c.In[2], nil), zeros(n...),
		zeros(n...), zeros(n...))
	d.forward.Attrs = append(normAttrs(c), kerneltest.Attr("training_mode", int64(1)))
	return d, c.In[1].Len() > 0
}

// normAttrs are the attributes of a norm: the cases' epsilon, and those of the names that the
// gradient has.
func normAttrs(c *kerneltest.Case, names ...string) []graph.Attr {
	attrs := []graph.Attr{kerneltest.Attr("epsilon", float32(epsilon))}
	for _, a := range c.Attrs {
		if slices.Contains(names, a.Name) {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// whole is of dY and the operator's own operands.
func whole(k graph.Kind, dy int, operands, wrt []int) undo {
	return func(c *kerneltest.Case) (derivative, bool) {
		var in []*executor.Tensor
		for _, i := range operands {
			switch {
			case i < 0:
				in = append(in, nil)
			case i >= len(c.In) || c.In[i] == nil:
				return derivative{}, false
			case i == 3: // a resize's scales
				in = append(in, c.In[i])
			default:
				in = append(in, wide(c.In[i], nil))
			}
		}
		d := step(k, c.In[dy], wrt, in...)
		d.forward.Attrs = c.Attrs
		return d, true
	}
}

// gathered is of dY, a shape and operands that say what is taken.
func gathered(k graph.Kind, shape, dy int, operands ...int) undo {
	return func(c *kerneltest.Case) (derivative, bool) {
		var dims []int
		for _, n := range executor.Of[int64](c.In[shape]) {
			dims = append(dims, int(n))
		}
		in := []*executor.Tensor{zeros(dims...)}
		for _, i := range operands {
			if i < len(c.In) {
				in = append(in, c.In[i])
			}
		}
		d := step(k, c.In[dy], []int{0}, in...)
		d.forward.Attrs = c.Attrs
		return d, true
	}
}

// pooled is of dY and the places, counted by rows, of the elements that were taken.
func pooled(c *kerneltest.Case) (derivative, bool) {
	columns := slices.ContainsFunc(c.Attrs, func(a graph.Attr) bool { return a.Name == "storage_order" })
	return step(op.Gather, c.In[0], []int{0}, zeros(c.Want[0].Len()), c.In[1]), !columns
}

// loss is of dY, the logarithms of probabilities, labels and perhaps weights, an index to ignore and
// a bias, which is added to the gradient.
func loss(k graph.Kind) undo {
	return func(c *kerneltest.Case) (derivative, bool) {
		if bias := biasOf(c); bias < len(c.In) && c.In[bias] != nil {
			return derivative{}, false
		}
		in := []*executor.Tensor{wide(c.In[1], nil)}
		for _, x := range c.In[2:] {
			in = append(in, wide(x, nil))
		}
		d := step(k, c.In[0], []int{0}, in...)
		d.forward.Attrs = c.Attrs
		d.forward.Out, d.dy = append(d.forward.Out, graph.Float64), append(d.dy, nil)
		return d, true
	}
}

// biasOf is the slot of a loss's bias.
func biasOf(c *kerneltest.Case) int {
	if c.Kind == op.SoftmaxCrossEntropyLossInternalGrad {
		return 5
	}
	return 4
}

// unitLoss is of the logarithms of probabilities and labels; the gradient of the loss is 1.
func unitLoss(c *kerneltest.Case) (derivative, bool) {
	one := executor.NewTensor[float64](graph.Float64, []int{}, 1)
	d := step(op.SoftmaxCrossEntropyLoss, one, []int{0}, wide(c.In[0], nil), c.In[1])
	d.forward.Attrs = c.Attrs
	return d, true
}
