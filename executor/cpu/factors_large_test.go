package cpu_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// waves makes a tensor of numbers whose sums show their order in their bits.
func waves(seed int, shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Sin(float64(i + 1000*seed)))
	}
	return executor.NewTensor(graph.Float32, shape, v...)
}

// labels makes labels below a number of classes.
func labels(classes int, shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(i * 7 % classes)
	}
	return executor.NewTensor(graph.Int64, shape, v...)
}

// large makes a case in float32 of operands in which kernels have more than one of their blocks.
func large(k graph.Kind, outs int, attrs []graph.Attr, in ...*executor.Tensor) kerneltest.Case {
	c := kerneltest.Case{Name: "large", Kind: k, Attrs: attrs, In: in}
	for _, x := range in {
		if x != nil {
			c.Name += fmt.Sprint(x.Shape)
		}
	}
	for _, a := range attrs {
		c.Name += fmt.Sprint(" ", a.Name, a.Value)
	}
	for range outs {
		c.Out = append(c.Out, graph.Float32)
	}
	return c
}

func attrs(list ...any) (out []graph.Attr) {
	for i := 0; i < len(list); i += 2 {
		out = append(out, kerneltest.Attr(list[i].(string), list[i+1]))
	}
	return out
}

// largeCases are what a factor's grain promises about, at sizes at which it could fail.
func largeCases() []kerneltest.Case {
	one := int64(1)
	list := []kerneltest.Case{
		large(op.MatMul, 1, nil, waves(1, 500, 450), waves(2, 450, 70)),
		large(op.MatMul, 1, nil, waves(1, 385, 200), waves(2, 200, 600)),
		large(op.MatMul, 1, nil, waves(1, 3, 200, 70), waves(2, 70, 250)),
		large(op.MatMul, 1, nil, waves(1, 2, 384, 70), waves(2, 70, 65)),
		large(op.MatMul, 1, nil, waves(1, 4, 96, 70), waves(2, 1, 70, 65)),
		large(op.MatMul, 1, nil, waves(1, 2, 2, 250, 30), waves(2, 2, 2, 30, 80)),
		large(op.MatMul, 1, nil, waves(1, 2, 3, 50, 30), waves(2, 2, 1, 30, 80)),
		large(op.MatMul, 1, nil, waves(1, 3, 250, 130), waves(2, 130)),
		large(op.MatMul, 1, nil, waves(1, 400), waves(2, 400, 300)),
		large(op.FusedMatMul, 1, attrs("transA", one, "alpha", float32(0.3)), waves(1, 450, 400), waves(2, 450, 70)),
		large(op.FusedMatMul, 1, attrs("transA", one), waves(1, 3, 45, 400), waves(2, 45, 70)),
		large(op.FusedMatMul, 1, attrs("transB", one), waves(1, 3, 40, 450), waves(2, 70, 450)),
		large(op.MatMul, 1, nil, waves(1, 3, 50, 450), waves(2, 3, 450, 70)),
		large(op.MatMul, 1, nil, waves(1, 2, 3, 200, 450), waves(2, 2, 1, 450, 300)),
		large(op.MatMul, 1, nil, waves(1, 3, 50, 450), waves(2, 450, 70)),
		large(op.MatMul, 1, nil, waves(1, 3, 50, 450), waves(2, 450)),
		large(op.FusedMatMul, 1, attrs("transA", one, "alpha", float32(0.3)), waves(1, 3, 450, 50),
			waves(2, 3, 450, 70)),
		large(op.MatMulAdd, 1, nil, waves(1, 3, 50, 450), waves(2, 3, 450, 70), waves(3, 3, 50, 70)),
		large(op.FusedMatMulAdd, 1, attrs("transB", one, "alpha", float32(0.3)), waves(1, 3, 250, 450),
			waves(2, 3, 70, 450), waves(3, 3, 250, 70)),
		large(op.Gemm, 1, attrs("transA", one, "alpha", float32(0.3), "beta", float32(0.7)), waves(1, 450, 400),
			waves(2, 450, 70), waves(3, 400, 1)),
		large(op.Gemm, 1, attrs("transB", one), waves(1, 400, 450), waves(2, 70, 450), waves(3, 70)),
		large(op.Gemm, 1, nil, waves(1, 400, 450), waves(2, 450, 70), waves(3, 400, 70)),
		large(op.Softmax, 1, nil, waves(1, 3, 40, 600)),
		large(op.Softmax, 1, attrs("axis", one), waves(1, 3, 40, 70)),
		large(op.LogSoftmax, 1, nil, waves(1, 40, 1200)),
		large(op.SoftmaxGrad13, 1, attrs("axis", int64(-1)), waves(1, 3, 40, 600), waves(2, 3, 40, 600)),
		large(op.LogSoftmaxGrad13, 1, attrs("axis", int64(-1)), waves(1, 40, 600), waves(2, 40, 600)),
		large(op.LayerNormalization, 3, nil, waves(1, 3, 40, 700), waves(2, 700), waves(3, 700)),
		large(op.Gelu, 1, nil, waves(1, 3, 1111)),
		large(op.GeluGrad, 1, nil, waves(1, 3, 1111), waves(2, 3, 1111)),
		large(op.Add, 1, nil, waves(1, 3, 40, 70), waves(2, 70)),
		large(op.Tanh, 1, nil, waves(1, 3, 1111)),
		large(op.Transpose, 1, attrs("perm", []int64{1, 2, 0}), waves(1, 30, 40, 50)),
		large(op.SoftmaxCrossEntropyLoss, 2, attrs("reduction", "none"), waves(1, 70, 1300), labels(1300, 70)),
		large(op.SoftmaxCrossEntropyLoss, 2, attrs("reduction", "none"), waves(1, 3, 50, 300), labels(50, 3, 300)),
		large(op.SoftmaxCrossEntropyLossGrad, 1, attrs("reduction", "sum"), waves(1), waves(2, 70, 1300),
			labels(1300, 70)),
		large(op.SoftmaxCrossEntropyLossGrad, 1, attrs("reduction", "sum"), waves(1), waves(2, 3, 50, 300),
			labels(50, 3, 300)),
		large(op.Gather, 1, nil, waves(1, 90, 40), labels(90, 3, 50)),
	}
	last := executor.NewTensor(graph.Int64, []int{1}, int64(1))
	long := large(op.ReduceSum, 1, nil, waves(1, 3, 1_200_000), last)
	rows := large(op.ReduceSum, 1, nil, waves(1, 3, 4000, 70), last)
	long.Tol, rows.Tol = 1e-3, 1e-3 // of what all but cancels out
	list = append(list, long, large(op.ReduceSum, 1, nil, waves(1, 3, 30_000), last),
		rows)
	for _, k := range []graph.Kind{op.ReduceSum, op.ReduceMean, op.ReduceL2, op.ReduceLogSumExp, op.ReduceProd,
		op.ReduceMax, op.ReduceMin} {
		for _, shape := range [][]int{{3, 2500}, {5, 40, 300}} {
			for axis := range shape {
				axes := executor.NewTensor(graph.Int64, []int{1}, int64(axis))
				list = append(list, large(k, 1, attrs("keepdims", int64(axis%2)), waves(1, shape...), axes))
			}
		}
	}
	return list
}

// TestJointRows: rows of a batch of matrices that share the right one, counted as one, keep their bits
// where they are cut at multiples of what the factors say, across matrices too.
func TestJointRows(t *testing.T) {
	a, b := waves(1, 3, 250, 70), waves(2, 70, 65)
	c := large(op.MatMul, 1, nil, a, b)
	whole, err := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 1, Runs: 1})
	require.NoError(t, err)
	factors := op.FactorsOf(pieces(&c, whole))
	rows := factors[2]
	require.Equal(t, op.Factor{Size: 250, In: rows.In, Out: rows.Out, Joint: op.ProductGrain}, rows)
	require.EqualValues(t, 96, factors[3].Grain, "96·250 is a multiple of 192")
	for from := int64(0); from < 750; from += rows.Joint {
		part := large(op.MatMul, 1, nil, pick(flat(a), op.Place{Outer: 1, Inner: 1}, from, min(from+rows.Joint, 750),
			750), b)
		got, err := kerneltest.Run(cpu.Device{}, &part, kerneltest.Setup{Threads: 2, Runs: 1})
		require.NoError(t, err)
		want := pick(flat(whole[0]), op.Place{Outer: 1, Inner: 1}, from, min(from+rows.Joint, 750), 750)
		require.NoError(t, kerneltest.Compare(got[0], want, 0))
	}
}

// flat views a tensor of three dims as a matrix.
func flat(x *executor.Tensor) *executor.Tensor {
	return &executor.Tensor{DType: x.DType, Shape: []int{x.Shape[0] * x.Shape[1], x.Shape[2]}, Data: x.Data}
}

// TestMeanOfLosses: the mean of losses is, bit for bit, the mean form of the losses one by one, as scores
// of one class; and its gradient that of the sum with the loss's gradient divided by the count first.
func TestMeanOfLosses(t *testing.T) {
	for _, ignored := range []int{0, 1, 700, 3000} { // of 3000
		for _, shape := range [][]int{{3000, 11}, {3, 11, 1000}} {
			x, l := waves(1, shape...), labels(11, append([]int{shape[0]}, shape[2:]...)...)
			at := executor.Of[int64](l)
			zero := labels(1, len(at))
			for i := range ignored {
				at[i*7%3000], executor.Of[int64](zero)[i*7%3000] = -1, -1
			}
			ignore := executor.NewTensor(graph.Int64, nil, int64(-1))
			run := func(c kerneltest.Case) []*executor.Tensor {
				out, err := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 2, Runs: 1})
				require.NoError(t, err)
				return out
			}
			internal := func(k graph.Kind, outs int, reduction string, in ...*executor.Tensor) []*executor.Tensor {
				return run(large(k, outs, attrs("reduction", reduction), append(in, nil, ignore)...))
			}
			mean := internal(op.SoftmaxCrossEntropyLossInternal, 2, "mean", x, l)
			each := internal(op.SoftmaxCrossEntropyLossInternal, 2, "none", x, l)
			require.NoError(t, kerneltest.Compare(each[1], mean[1], 0))
			scores := run(large(op.Neg, 1, nil, each[0]))[0]
			scores.Shape = []int{len(at), 1}
			joined := run(large(op.NegativeLogLikelihoodLoss, 1, attrs("reduction", "mean", "ignore_index", int64(-1)),
				scores, zero))
			require.NoError(t, kerneltest.Compare(joined[0], mean[0], 0), "%v, %d ignored", shape, ignored)

			dy := waves(0, 1)
			dy.Shape = nil
			executor.Of[float32](dy)[0] = 0.37
			whole := internal(op.SoftmaxCrossEntropyLossInternalGrad, 1, "mean", dy, mean[1], l)
			share := executor.NewTensor(graph.Float32, nil, float32(float64(float32(0.37))/float64(3000-ignored)))
			parts := internal(op.SoftmaxCrossEntropyLossInternalGrad, 1, "sum", share, mean[1], l)
			require.NoError(t, kerneltest.Compare(parts[0], whole[0], 0), "%v, %d ignored", shape, ignored)
		}
	}
}
