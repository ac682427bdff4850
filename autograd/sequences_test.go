package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/symbolic"
)

// TestSequences: sequences that are none to gradients, compared with graphs without them: the executor has
// no sequences, so that there is nothing to take differences of.
func TestSequences(t *testing.T) {
	for _, c := range []struct{ name, with, without, fails string }{
		{"joined",
			`g (double[2, 3] x, double[1, 3] z) => (double[3, 3] y) { s = SequenceConstruct(x, z)  j = ConcatFromSequence<axis = 0>(s)  y = Mul(j, j) }`,
			`g (double[2, 3] x, double[1, 3] z) => (double[3, 3] y) { j = Concat<axis = 0>(x, z)  y = Mul(j, j) }`, ""},
		{"stacked",
			`g (double[2, 3] x, double[2, 3] z) => (double[2, 3, 2] y) { s = SequenceConstruct(x, z)  j = ConcatFromSequence<axis = -1, new_axis = 1>(s)  y = Mul(j, j) }`,
			`g (double[2, 3] x, double[2, 3] z) => (double[2, 3, 2] y) <int64[1] a = {2}> { x1 = Unsqueeze(x, a)  z1 = Unsqueeze(z, a)  j = Concat<axis = 2>(x1, z1)  y = Mul(j, j) }`, ""},
		{"taken out",
			`g (double[2] x, double[2] z) => (double[2] y) <int64 last = {-1}> { s = SequenceConstruct(x, z)  j = SequenceAt(s, last)  y = Mul(j, x) }`,
			`g (double[2] x, double[2] z) => (double[2] y) { y = Mul(z, x) }`, ""},
		{"cut by one size",
			`g (double[5] x) => (double[K] y) <int64 two = {2}, int64 one = {1}, int64 last = {-1}> { s = SplitToSequence(x, two)  a = SequenceAt(s, one)  b = SequenceAt(s, last)  y = Mul(a, b) }`,
			`g (double[5] x) => (double[K] y) <int64[2] parts = {4, 1}, int64[2] halves = {2, 2}> { p, b = Split(x, parts)  q, a = Split(p, halves)  y = Mul(a, b) }`, ""},
		{"cut by sizes",
			`g (double[2, 5] x) => (double[2, 2] y) <int64[3] sizes = {2, 1, 2}, int64 zero = {0}, int64 two = {2}> { s = SplitToSequence<axis = -1>(x, sizes)  a = SequenceAt(s, zero)  b = SequenceAt(s, two)  y = Mul(a, b) }`,
			`g (double[2, 5] x) => (double[2, 2] y) <int64[3] sizes = {2, 1, 2}> { a, m, b = Split<axis = 1>(x, sizes)  y = Mul(a, b) }`, ""},
		{"rows",
			`g (double[N, 3] x) => (double[3] y) <int64 one = {1}> { s = SplitToSequence<keepdims = 0>(x)  a = SequenceAt(s, one)  y = Mul(a, a) }`,
			`g (double[N, 3] x) => (double[3] y) <int64 one = {1}> { a = Gather(x, one)  y = Mul(a, a) }`, ""},
		{"at an unknown place",
			`g (double[2] x, double[2] z, int64 i) => (double[2] y) { s = SequenceConstruct(x, z)  y = SequenceAt(s, i) }`, "", "gradients do not flow through this sequence"},
		{"captured",
			`g (bool c, double[2] x, double[2] z) => (double[2] y) <int64 one = {1}> { s = SequenceConstruct(x, z)
				y = If<then_branch = t () => (double[2] a) { a = SequenceAt(s, one) }, else_branch = e () => (double[2] b) { b = Relu(x) }>(c) }`,
			"", "gradients do not flow through this sequence"},
		{"grown in a loop",
			`g (double[2] x, int64 m) => (double[K] y) { e = SequenceConstruct(x)
				l = Loop<body = b (int64 i, bool c, seq(double[2]) s) => (bool c2, seq(double[2]) s2) { c2 = Identity(c)  s2 = SequenceInsert(s, x) }>(m, "", e)
				y = ConcatFromSequence<axis = 0>(l) }`, "", "gradients do not flow through this sequence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := differentiateAll(t, c.with)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			for _, n := range j.Model.Graph.Nodes {
				require.NotContains(t, n.Op, "Sequence")
			}
			plain, err := differentiateAll(t, c.without)
			require.NoError(t, err)
			var outs [2][]*executor.Tensor
			for i, m := range []*autograd.Joint{j, plain} {
				outs[i] = newRunner(t, m.Model, symbolic.Env{"N": 4, "K": 2})(countedInputs(t, m))
			}
			require.Equal(t, outs[1], outs[0])
		})
	}
}

// differentiateAll differentiates output y by all float inputs.
func differentiateAll(t *testing.T, text string) (*autograd.Joint, error) {
	c := gradCase{Name: "sequence", Graph: text}
	return autograd.Differentiate(c.parse(t), autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, AllInputs: true})
}

// countedInputs gives inputs the numbers 1, 2, 3, …
func countedInputs(t *testing.T, j *autograd.Joint) map[string]*executor.Tensor {
	in := map[string]*executor.Tensor{}
	for _, d := range j.Model.Graph.Inputs {
		shape := executor.EvalShape(d.Type, symbolic.Env{"N": 4, "K": 2})
		n, _ := executor.Bytes(d.Type.DType, shape)
		x := &executor.Tensor{DType: d.Type.DType, Shape: shape, Data: executor.Memory(make([]float64, n/8))}
		for i := range executor.Of[float64](x) {
			executor.Of[float64](x)[i] = float64(1 + i)
		}
		in[j.Model.Graph.ValueName(d.Value)] = x
	}
	return in
}
