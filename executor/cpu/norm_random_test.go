package cpu_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
)

// normKinds are the operators of two families.
var normKinds = []graph.Kind{op.ArgMax, op.ArgMin, op.BroadcastGradientArgs, op.CumSum, op.NonZero, op.ReduceAllL2,
	op.ReduceL1,
	op.ReduceL2, op.ReduceLogSum, op.ReduceLogSumExp, op.ReduceMax, op.ReduceMean, op.ReduceMin, op.ReduceProd,
	op.ReduceSum,
	op.ReduceSumSquare, op.ReduceSumTraining, op.TopK, op.Unique, op.BatchNormInternal, op.BatchNormalization,
	op.BatchNormalizationGrad, op.BiasSoftmax, op.EmbedLayerNormalization, op.GroupNorm,
	op.GroupNormalization, op.Hardmax,
	op.InstanceNormalization, op.InvertibleLayerNormalizationGrad, op.LRN, op.LayerNormalization,
	op.LayerNormalizationGrad,
	op.LogSoftmax, op.LogSoftmaxGrad, op.LogSoftmaxGrad13, op.LpNormalization, op.MeanVarianceNormalization,
	op.NegativeLogLikelihoodLoss, op.RMSNormalization, op.SimplifiedLayerNormalization,
	op.SimplifiedLayerNormalizationGrad,
	op.SkipLayerNormalization, op.SkipSimplifiedLayerNormalization, op.Softmax, op.SoftmaxCrossEntropyLoss,
	op.SoftmaxCrossEntropyLossGrad, op.SoftmaxCrossEntropyLossInternal, op.SoftmaxCrossEntropyLossInternalGrad,
	op.SoftmaxGrad, op.SoftmaxGrad13}

// TestNormsRandomOperands gives kernels operands of random shapes and types: most are wrong, and a
// kernel may do nothing worse than return an error.
func TestNormsRandomOperands(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pool := executor.NewPool(1)
	defer pool.Close()
	for _, k := range normKinds {
		succeeded := 0
		for i := range 1000 {
			if randomNorm(t, r, pool, k, i%2 == 0) == nil {
				succeeded++
			}
		}
		t.Logf("%s: %d of 1000 runs succeed", op.Of(k).Name, succeeded)
	}
}

// labelSlot returns which input has the labels of a loss, or -1.
func labelSlot(k graph.Kind) int {
	switch k {
	case op.NegativeLogLikelihoodLoss, op.SoftmaxCrossEntropyLoss, op.SoftmaxCrossEntropyLossInternal:
		return 1
	case op.SoftmaxCrossEntropyLossGrad, op.SoftmaxCrossEntropyLossInternalGrad:
		return 2
	}
	return -1
}

// randomNorm runs a node; if alike, its float operands share a type and shapes derive from one.
func randomNorm(t *testing.T, r *rand.Rand, pool *executor.Pool, k graph.Kind, alike bool) (err error) {
	info := op.Of(k)
	n := &graph.Node{Op: info.Name, Domain: info.Domain, Kind: k}
	p := &executor.Prep{Node: n, Label: info.Name, Info: info, Version: info.Since[r.IntN(len(info.Since))], Threads: 1}
	for _, name := range []string{"axis", "keepdims", "training_mode", "k", "groups", "num_groups", "size", "p",
		"activation", "spatial", "ignore_index"} {
		if r.IntN(2) == 0 {
			n.SetAttr(name, int64(r.IntN(6)-2))
		}
	}
	n.SetAttr("reduction", []string{"none", "mean", "sum"}[r.IntN(3)])
	types := []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.Int64, graph.Int32, graph.Bool}
	d := types[r.IntN(3)]
	var shape []int
	for range r.IntN(5) {
		shape = append(shape, r.IntN(4))
	}
	count := info.Inputs.Min
	if extra := info.Inputs.Max - count; extra > 0 {
		count += r.IntN(extra + 1)
	}
	in := make([]*executor.Tensor, count)
	for i := range in {
		if p.In = append(p.In, graph.Undefined); r.IntN(16) == 0 {
			continue
		}
		e, s := d, append([]int(nil), shape...)
		if !alike || r.IntN(3) == 0 {
			e = types[r.IntN(len(types))]
		}
		switch {
		case !alike:
			s = append(s[:r.IntN(len(s)+1)], r.IntN(3))
		case r.IntN(3) > 0 && len(s) > 0:
			s = s[r.IntN(len(s)):][:1]
		}
		if label := labelSlot(k); alike && i == label && len(shape) > 1 {
			e, s = graph.Int64, append(append([]int(nil), shape[:1]...), shape[2:]...)
		}
		in[i], p.In[i] = normInput(e, s...), e
		for j := 0; e == graph.Int64 && j < in[i].Len(); j++ {
			executor.Of[int64](in[i])[j] = int64(r.IntN(5) - 1)
		}
	}
	out := make([]*executor.Tensor, max(info.Outputs.Min, 1))
	for i := range out {
		e := d
		if k == op.ArgMax || k == op.ArgMin || k == op.NonZero || k == op.BroadcastGradientArgs ||
			(k == op.TopK || k == op.Unique) && i > 0 {
			e = graph.Int64
		} else if k == op.EmbedLayerNormalization && i == 1 {
			e = graph.Int32
		}
		p.Out, out[i] = append(p.Out, e), &executor.Tensor{DType: e}
	}
	if in[0] != nil && len(out) == 1 && out[0].DType == d && k != op.ReduceAllL2 {
		p.Out[0], out[0].DType = p.In[0], p.In[0]
	}
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s version %d, inputs %v, attributes %v: %v", info.Name, p.Version, in, n.Attrs, r)
			err = errors.New(fmt.Sprint(r))
		}
	}()
	kernel, err := cpu.Device{}.Kernel(p)
	if err != nil {
		return err
	}
	return executor.Invoke(kernel, executor.NewCtx(p, pool, &normMemory{}, in, out))
}
