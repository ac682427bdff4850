package chunk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/planner/chunk"
)

// TestFormsInParts cuts every value of small graphs along every dim: what can be cut gives what the
// whole gives, and what cannot has a reason. The graphs are what files may be and examples are not.
func TestFormsInParts(t *testing.T) {
	const narrow = 2e-2 // float16 and bfloat16
	for _, c := range []struct {
		name, graph string
		opset       int // of a graph with its backward half; 0: it is differentiated
		within      float64
		cuts        int // that there are at least
		why         []string
	}{
		{name: "one row", cuts: 1, graph: `m (float[1, 4] x, float[4, 6] w, int64[1] labels) => (float loss)
			{ a = MatMul(x, w)  b = Tanh(a)  loss = SoftmaxCrossEntropyLoss(b, labels) }`},
		{name: "double", cuts: 5, within: 1e-9, graph: `m (double[5, 4] x, double[4, 6] w, int64[5] labels) => (double loss)
			{ a = MatMul(x, w)  b = Tanh(a)  loss = SoftmaxCrossEntropyLoss(b, labels) }`},
		{name: "float16", cuts: 5, within: narrow,
			graph: `m (float16[5, 4] x, float16[4, 6] w, float16[6] g) => (float16 loss)
			{ a = MatMul(x, w)  b = Tanh(a)  n = LayerNormalization<axis = -1>(b, g)  loss = ReduceMean<keepdims = 0>(n) }`},
		{name: "bfloat16", cuts: 5, within: 8 * narrow,
			graph: `m (bfloat16[5, 4] x, bfloat16[4, 6] w, bfloat16[6] g) => (bfloat16 loss)
			{ a = MatMul(x, w)  b = Sigmoid(a)  n = Mul(b, g)  s = Softmax(n)  loss = ReduceMean<keepdims = 0>(s) }`},
		{name: "empty", graph: `m (float[0, 4] x, float[4, 6] w) => (float loss)
			{ a = MatMul(x, w)  b = Tanh(a)  loss = ReduceSum<keepdims = 0>(b) }`},
		{name: "empty inner", graph: `m (float[5, 0] x, float[0, 6] w) => (float loss)
			{ a = MatMul(x, w)  b = Tanh(a)  loss = ReduceSum<keepdims = 0>(b) }`, cuts: 1},
		{name: "a weight used twice", cuts: 5, graph: `m (int64[5] tokens, float[7, 4] w, int64[5] labels) => (float loss)
			{ x = Gather(w, tokens)  t = Transpose(w)  h = Tanh(x)  l = MatMul(h, t)
			  loss = SoftmaxCrossEntropyLoss(l, labels) }`},
		{name: "outputs inside", cuts: 5, why: []string{"is an output of the graph"},
			graph: `m (float[5, 4] x, float[4, 6] w) => (float loss, float[5, 6] b, float[5, 6] c)
			{ a = MatMul(x, w)  b = Tanh(a)  c = Exp(b)  d = Mul(a, c)  loss = ReduceMean<keepdims = 0>(d) }`},
		{name: "a weight that is an output", cuts: 2, graph: `m (float[5, 4] x) => (float loss, float[4, 6] w)
			<float[4, 6] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>
			{ a = MatMul(x, w)  b = Tanh(a)  loss = ReduceMean<keepdims = 0>(b) }`},
		{name: "If beside", cuts: 5, graph: `m (float[5, 4] x, float[4, 6] w, bool c) => (float loss)
			{ a = MatMul(x, w)  b = Tanh(a)  d = Exp(b)
			  e = If(c) <then_branch = t () => (float[5, 6] y) { y = Neg(b) }, else_branch = e () => (float[5, 6] z)
			    { z = Mul(b, b) }>  f = Add(d, e)  loss = ReduceMean<keepdims = 0>(f) }`,
			why: []string{"inside a subgraph"}},
		{name: "Loop beside", cuts: 5, graph: `m (float[5, 4] x, float[4, 6] w, int64 n, bool c) => (float loss)
			{ a = MatMul(x, w)  b = Tanh(a)  e = Loop(n, c, b) <body = l (int64 i, bool m, float[5, 6] s) =>
			  (bool m2, float[5, 6] u) { m2 = Identity(m)  u = Mul(s, s) }>
			  f = Add(a, e)  loss = ReduceMean<keepdims = 0>(f) }`, why: []string{"is not computed in parts"}},
		{name: "Scan beside", cuts: 5, graph: `m (float[5, 4] x, float[4, 6] w) => (float loss)
			{ a = MatMul(x, w)  b = Tanh(a)  e = Scan(b) <num_scan_inputs = 1, body = l (float[6] s) => (float[6] u)
			  { u = Mul(s, s) }>  f = Add(a, e)  loss = ReduceMean<keepdims = 0>(f) }`,
			why: []string{"is not computed in parts"}},
		{name: "shapes computed", cuts: 5, graph: `m (float[5, 4] x, float[4, 6] w) => (float loss)
			{ a = MatMul(x, w)  s = Shape(a)  n = Size(a)  f = Cast<to = 1>(n)  b = Tanh(a)  r = Reshape(b, s)
			  d = Div(r, f)  loss = ReduceSum<keepdims = 0>(d) }`},
		{name: "a scaled sum", cuts: 5, opset: 17,
			graph: `m (float[5, 4] x, float[4, 6] w, float[4, 6] c) => (float loss, float[4, 6] dw)
			{ a = MatMul(x, w)  b = Tanh(a)  loss = ReduceMean<keepdims = 0>(b)  e = Mul(b, b)  d = Sub(b, e)
			  dw = Gemm<alpha = 0.5, beta = 0.25, transA = 1>(x, d, c) }`},
		{name: "opset 9", cuts: 2, opset: 9,
			graph: `m (float[5, 4] x, float[4, 6] w) => (float loss, float[4, 6] dw)
			{ a = MatMul(x, w)  b = Tanh(a)  loss = ReduceMean<keepdims = 0>(b)  c = Mul(b, b)  d = Sub(b, c)
			  t = Transpose(x)  dw = MatMul(t, d) }`},
		{name: "a loss in opset 11", cuts: 1, opset: 11, why: []string{"the operator set lacks"},
			graph: `m (float[5, 4] x, int64[5] labels) => (float loss, float[5, 4] dx)
			{ a = Tanh(x)  loss, p = com.microsoft.SoftmaxCrossEntropyLossInternal(a, labels)
			  d = com.microsoft.SoftmaxCrossEntropyLossInternalGrad(loss, p, labels)  b = Mul(d, a)  dx = Mul(b, a) }`},
		{name: "opset 12", cuts: 2, opset: 12,
			graph: `m (float[5, 4] x, float[4, 6] w, int64[5] labels) => (float loss, float[4, 6] dw)
			{ a = MatMul(x, w)  b = Tanh(a)  loss = SoftmaxCrossEntropyLoss(b, labels)  c = Mul(b, b)  d = Sub(b, c)
			  t = Transpose(x)  dw = MatMul(t, d) }`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m *memopt.Model
			if c.opset > 0 {
				read, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : %d, "com.microsoft" : 1]> `, c.opset)+c.graph, "m")
				require.NoError(t, err)
				m, err = memopt.New(read, memopt.Options{})
				require.NoError(t, err)
			} else {
				m = trained(t, c.graph, nil, "w")
			}
			b := newBaseline(t, m)
			if c.within == 0 {
				c.within = 1e-5
			}
			cuts, why := b.everyCut(t, verify.Tolerance{Abs: c.within, Rel: c.within})
			t.Logf("%d cuts; %v", cuts, why)
			require.GreaterOrEqual(t, cuts, c.cuts)
			for _, text := range c.why {
				require.Contains(t, strings.Join(why, "\n"), text)
			}
		})
	}
}

// everyCut cuts every value along every dim and holds the graphs in parts to the whole. It returns how
// many different cuts there are, and why others are none.
func (b *baseline) everyCut(t *testing.T, within verify.Tolerance) (cuts int, why []string) {
	seen := map[string]bool{}
	for v := range b.bound.Graph.Values {
		for i, dim := range []string{"0", "1", "0-1", "2"} {
			for share := range 1 + v%2 {
				for _, mode := range []chunk.Mode{chunk.Fast, chunk.Exact} {
					cut, err := chunk.Around(b.bound, b.order, b.bound.Graph.Values[v].Name, dim, 2+(v+i)%3,
						float64(share), mode)
					if err != nil {
						why = append(why, err.Error())
						continue
					}
					if key := fmt.Sprint(*cut); !seen[key] {
						seen[key] = true
						b.holdWithin(t, within, *cut)
					}
				}
			}
		}
	}
	return len(seen), why
}
