package autograd_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// TestSequences: sequences that are none to gradients, compared with graphs without them: the
// executor has no sequences, so that there is nothing to take differences of.
func TestSequences(t *testing.T) {
	for _, c := range []struct{ name, with, without, fails string }{
		{"joined",
			`g (double[2, 3] x, double[1, 3] z) => (double[3, 3] y) { s = SequenceConstruct(x, z)  j = ConcatFromSequence<axis = 0>(s)  y = Mul(j, j) }`,
			`g (double[2, 3] x, double[1, 3] z) => (double[3, 3] y) { j = Concat<axis = 0>(x, z)  y = Mul(j, j) }`, ""},
		{"stacked",
			`g (double[2, 3] x, double[2, 3] z) => (double[2, 3, 2] y) { s = SequenceConstruct(x, z)  j = ConcatFromSequence<axis = -1, new_axis = 1>(s)  y = Mul(j, j) }`,
			`g (double[2, 3] x, double[2, 3] z) => (double[2, 3, 2] y) <int64[1] a = {2}> { x1 = Unsqueeze(x, a)  z1 = Unsqueeze(z, a)  j = Concat<axis = 2>(x1, z1)  y = Mul(j, j) }`,
			""},
		{"taken out",
			`g (double[2] x, double[2] z) => (double[2] y) <int64 last = {-1}> { s = SequenceConstruct(x, z)  j = SequenceAt(s, last)  y = Mul(j, x) }`,
			`g (double[2] x, double[2] z) => (double[2] y) { y = Mul(z, x) }`, ""},
		{"cut by one size",
			`g (double[5] x) => (double[K] y) <int64 two = {2}, int64 one = {1}, int64 last = {-1}> { s = SplitToSequence(x, two)  a = SequenceAt(s, one)  b = SequenceAt(s, last)  y = Mul(a, b) }`,
			`g (double[5] x) => (double[K] y) <int64[2] parts = {4, 1}, int64[2] halves = {2, 2}> { p, b = Split(x, parts)  q, a = Split(p, halves)  y = Mul(a, b) }`,
			""},
		{"cut by sizes",
			`g (double[2, 5] x) => (double[2, 2] y) <int64[3] sizes = {2, 1, 2}, int64 zero = {0}, int64 two = {2}> { s = SplitToSequence<axis = -1>(x, sizes)  a = SequenceAt(s, zero)  b = SequenceAt(s, two)  y = Mul(a, b) }`,
			`g (double[2, 5] x) => (double[2, 2] y) <int64[3] sizes = {2, 1, 2}> { a, m, b = Split<axis = 1>(x, sizes)  y = Mul(a, b) }`,
			""},
		{"rows",
			`g (double[N, 3] x) => (double[3] y) <int64 one = {1}> { s = SplitToSequence<keepdims = 0>(x)  a = SequenceAt(s, one)  y = Mul(a, a) }`,
			`g (double[N, 3] x) => (double[3] y) <int64 one = {1}> { a = Gather(x, one)  y = Mul(a, a) }`, ""},
		{"at an unknown place",
			`g (double[2] x, double[2] z, int64 i) => (double[2] y) { s = SequenceConstruct(x, z)  y = SequenceAt(s, i) }`,
			"", "gradients do not flow through this sequence"},
		{"captured",
			`g (bool c, double[2] x, double[2] z) => (double[2] y) <int64 one = {1}> { s = SequenceConstruct(x, z)
				y = If<then_branch = t () => (double[2] a) { a = SequenceAt(s, one) }, else_branch = e () => (double[2] b) { b = Relu(x) }>(c) }`,
			"", "gradients do not flow through this sequence"},
		{"grown in a loop",
			`g (double[2] x, int64 m) => (double[K] y) { e = SequenceConstruct(x)
				l = Loop<body = b (int64 i, bool c, seq(double[2]) s) => (bool c2, seq(double[2]) s2) { c2 = Identity(c)  s2 = SequenceInsert(s, x) }>(m, "", e)
				y = ConcatFromSequence<axis = 0>(l) }`, "", "gradients do not flow through this sequence"},
		{"collected and stacked", collecting("2, 4, 3", "y = ConcatFromSequence<axis = 1, new_axis = 1>(all)"),
			stacking("2, 4, 3", "y = Transpose<perm = [1, 0, 2]>(all)"), ""},
		{"collected and stacked at the front",
			collecting("4, 2, 3", "y = ConcatFromSequence<axis = -3, new_axis = 1>(more)"),
			stacking("4, 2, 3", "y = Identity(more)"), ""},
		{"collected and stacked at the back",
			collecting("2, 3, 4", "y = ConcatFromSequence<axis = -1, new_axis = 1>(all)"),
			stacking("2, 3, 4", "y = Transpose<perm = [1, 2, 0]>(all)"), ""},
		{"collected and joined", collecting("8, 3", "y = ConcatFromSequence<axis = 0>(more)"),
			stacking("8, 3", "y = Reshape(more, rows)"), ""},
		{"collected and joined at the back", collecting("2, 12", "y = ConcatFromSequence<axis = -1>(all)"),
			stacking("2, 12", "t = Transpose<perm = [1, 0, 2]>(all)  y = Reshape(t, columns)"), ""},
		{"both collections",
			collecting("8, 3",
				"a = ConcatFromSequence<axis = 0>(all)  b = ConcatFromSequence<axis = 0>(more)  d = Mul(a, b)  f = "+
					"ReduceSum<keepdims = 0>(last)  y = Mul(d, f)"),
			stacking("8, 3",
				"a = Reshape(all, rows)  b = Reshape(more, rows)  d = Mul(a, b)  f = ReduceSum<keepdims = 0>(last)  "+
					"y = Mul(d, f)"), ""},
		{"one collection twice",
			collecting("2, 4, 3",
				"a = ConcatFromSequence<axis = 1, new_axis = 1>(all)  b = ConcatFromSequence<axis = 0, new_axis = "+
					"1>(all)  t = Transpose<perm = [1, 0, 2]>(b)  y = Mul(a, t)"),
			stacking("2, 4, 3", "a = Transpose<perm = [1, 0, 2]>(all)  y = Mul(a, a)"), ""},
		{"collected at the front",
			strings.NewReplacer("SequenceInsert(q, h2)",
				"SequenceInsert(q, h2, i)").Replace(collecting("8, 3", "y = ConcatFromSequence<axis = 0>(all)")), "",
			"gradients do not flow through this sequence"},
		{"collected and counted",
			strings.NewReplacer("h2 = Sin(m)",
				"k = SequenceLength(q)  f = Cast<to = 11>(k)  h2 = Mul(m, f)").Replace(collecting("8, 3",
				"y = ConcatFromSequence<axis = 0>(all)")), "",
			"gradients do not flow through this sequence"},
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
				n.Subgraphs(func(_ string, sub *graph.Graph) {
					for _, inner := range sub.Nodes {
						require.NotContains(t, inner.Op, "Sequence")
					}
				})
			}
			plain, err := differentiateAll(t, c.without)
			require.NoError(t, err)
			var outs [2][]*executor.Tensor
			for i, m := range []*autograd.Joint{j, plain} {
				outs[i] = newRunner(t, m.Model, symbolic.Env{"N": 4, "K": 2})(countedInputs(t, m))
			}
			for i, want := range outs[1] {
				require.Equal(t, want.Shape, outs[0][i].Shape)
				for k, w := range floatElems(want) {
					require.InDelta(t, w, floatElems(outs[0][i])[k], 1e-12*(1+math.Abs(w)), "output %d", i)
				}
			}
		})
	}
}

// differentiateAll differentiates output y by all float inputs.
func differentiateAll(t *testing.T, text string) (*autograd.Joint, error) {
	c := gradCase{Name: "sequence", Graph: text}
	return autograd.Differentiate(c.parse(t),
		autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, AllInputs: true})
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

// collecting is a Loop that appends to two sequences, and what follows it; stacking the same with
// stacked rows.
func collecting(shape, after string) string {
	return `g (double[2, 3] s, double[3] w) => (double[` + shape +
		`] y) <int64 n = {4}, bool yes = {1}> { none = SequenceEmpty<dtype = 11>()
		last, all, more = Loop<body = b (int64 i, bool c, double[2, 3] h, seq(double[2, 3]) q, seq(double[2, 3]) p) => (bool c2, double[2, 3] h2, seq(double[2, 3]) q2, seq(double[2, 3]) p2) {
			c2 = Identity(c)  m = Mul(h, w)  h2 = Sin(m)  q2 = SequenceInsert(q, h2)  p2 = SequenceInsert(p, m) }>(n, yes, s, none, none)
		` + after + ` }`
}

func stacking(shape, after string) string {
	return `g (double[2, 3] s, double[3] w) => (double[` + shape +
		`] y) <int64 n = {4}, bool yes = {1}, int64[2] rows = {-1, 3}, int64[2] columns = {2, -1}> {
		last, all, more = Loop<body = b (int64 i, bool c, double[2, 3] h) => (bool c2, double[2, 3] h2, double[2, 3] q, double[2, 3] m) {
			c2 = Identity(c)  m = Mul(h, w)  h2 = Sin(m)  q = Identity(h2) }>(n, yes, s)
		` + after + ` }`
}
