//go:build linux && (amd64 || arm64) && !nodl

package kerneltest_test

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// aliases make cases of operators that stock ONNX Runtime lacks into cases of operators that it
// has, of the same operands and results; ok is false where a case has more than those do.
var aliases = map[graph.Kind]func(c *kerneltest.Case) (ok bool){
	op.ConcatTraining:     renamed(op.Concat, 1),
	op.DynamicSlice:       renamed(op.Slice, 1),
	op.InPlaceAccumulator: renamed(op.Add, 1),
	op.ReduceSumTraining:  renamed(op.ReduceSum, 1),
	op.ShrunkenGather:     renamed(op.Gather, 1),
	op.SplitTraining:      renamed(op.Split, 9),
	op.BatchNormInternal:  batchNormAlias,
	op.Swish:              swishAlias,

	op.SoftmaxCrossEntropyLossInternal: lossAlias(op.SoftmaxCrossEntropyLoss, 2),

	op.NegativeLogLikelihoodLossInternal: lossAlias(op.NegativeLogLikelihoodLoss, 1),

	op.SoftmaxCrossEntropyLossDeeploy: logProbAlias,
}

// alias returns the case that the runtime is given for a case.
func alias(c kerneltest.Case) (kerneltest.Case, bool) {
	f := aliases[c.Kind]
	if f == nil {
		return c, op.Of(c.Kind).Dialect == ""
	}
	c.In, c.Out, c.Want = slices.Clone(c.In), slices.Clone(c.Out), slices.Clone(c.Want)
	c.Attrs, c.Opset = slices.Clone(c.Attrs), 0
	return c, f(&c)
}

// renamed is an operator of which n outputs are those of another one with as many operands.
func renamed(k graph.Kind, n int) func(c *kerneltest.Case) bool {
	return func(c *kerneltest.Case) bool {
		c.Kind, c.Out, c.Want = k, c.Out[:min(n, len(c.Out))], c.Want[:min(n, len(c.Want))]
		most := op.Of(k).Inputs.Max
		return most < 0 || len(c.In) <= most
	}
}

// batchNormAlias leaves out what is saved for the gradient.
func batchNormAlias(c *kerneltest.Case) bool {
	c.Attrs = append(c.Attrs, kerneltest.Attr("training_mode", int64(1)))
	return renamed(op.BatchNormalization, 3)(c)
}

// swishAlias is QuickGelu, whose factor is another where the node states none.
func swishAlias(c *kerneltest.Case) bool {
	if len(c.Attrs) == 0 {
		c.Attrs = []graph.Attr{kerneltest.Attr("alpha", float32(1))}
	}
	return renamed(op.QuickGelu, 1)(c)
}

// lossAlias makes an attribute of the index to ignore.
func lossAlias(k graph.Kind, outs int) func(c *kerneltest.Case) bool {
	return func(c *kerneltest.Case) bool {
		if len(c.In) > 3 {
			if c.In[3] != nil {
				c.Attrs = append(c.Attrs, kerneltest.Attr("ignore_index", executor.Of[int64](c.In[3])[0]))
			}
			c.In = c.In[:3]
		}
		return renamed(k, outs)(c)
	}
}

// logProbAlias is the loss of which only the logarithms are asked for.
func logProbAlias(c *kerneltest.Case) bool {
	c.Kind = op.SoftmaxCrossEntropyLoss
	c.Out, c.Want = append([]graph.DType{c.Out[0]}, c.Out...), append([]*executor.Tensor{nil}, c.Want...)
	return true
}
