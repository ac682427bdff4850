package autograd_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// TestStretchedDims: which operand of a broadcast was stretched shows at run time, whatever the
// file calls the dims.
func TestStretchedDims(t *testing.T) {
	bindings := []symbolic.Env{{"A": 1, "B": 4, "C": 4}, {"A": 4, "B": 1, "C": 4}, {"A": 4, "B": 4, "C": 1},
		{"A": 1, "B": 1, "C": 3}, {"A": 4, "B": 4, "C": 4}}
	for _, body := range []string{
		"y = Add(a, b)", "y = Add(b, a)", "y = Sub(a, b)", "y = Sub(b, a)", "y = Mul(a, b)", "y = Mul(b, a)",
		"y = Div(a, p)", "y = Div(p, a)",
		"y = Pow(p, b)", "y = Max(a, b, p)", "y = Min(p, b, a)", "y = Sum(a, p, b)", "y = Mean(b, p)",
		"y = Mod<fmod = 1>(a, p)", "y = PRelu(ab, b)",
		"y = Where(which, a, b)", "y = Where(which, b, a)", "y = MatMul(a3, b3)", "y = MatMul(b3, a3)",
		`y = Einsum<equation = "ij,ij->ij">(a, b)`,
		`y = Einsum<equation = "...i,...i->...">(b3, a3)`, "to = Shape(b) y = Expand(a, to)",
		"to = Shape(a) y = Expand(b, to)",
		"y = Gemm<transA = 1>(w, w, column)", "y = LayerNormalization(wide, a)",
		"y = Mul(wide, b)", "y = Add(b, wide)",
		// What follows sees the stretched dims.
		"h = Add(a, b) y = Mul(h, a)", "h = Add(b, a) r = Relu(h) y = Mul(a, r)", "h = Mul(a, b) y = MatMul(h, v)",
		"h = Mul(b, a) y = ReduceSum(h, zero)",
		"h = Mul(p, a) k = Concat<axis = 1>(h, h) y = Mul(k, tall)",
		`y = If(yes) <then_branch = g1 () => (double[?, 3] t) { t = Mul(a, b) }, else_branch = g2 () => (double[?, 3] e) { e = Add(b, a) }>`,
		`y = Loop(three, yes, ab) <body = b1 (int64 i, bool c, double[T, 3] s) => (bool d, double[?, 3] u) { d = Identity(c) m = Mul(a, b) u = Add(s, m) }>`,
	} {
		for _, env := range bindings {
			wide := func(dim string) int { return int(env[dim]) }
			which := &executor.Tensor{DType: graph.Bool, Shape: []int{wide("C"), 3}, Data: make([]byte, 3*wide("C"))}
			for i := range which.Data {
				which.Data[i] = byte(i % 2)
			}
			text := `g (double[A, 3] a, double[B, 3] b, double[A, 3, 3] a3, double[B, 3, 3] b3, double[C, 3] p, double[B, 6] tall, double[3, 2] v, double[B, 1] column,
				double[B, B] w, double[2, 5, A, 3] wide, bool[C, 3] which) => (double[] y) <int64[1] zero = {0}, int64 three = {3}, bool yes = {1}>
				{ ab = Add(a, b) ` + body + ` }`
			name := fmt.Sprintf("%s A=%d B=%d C=%d", body, env["A"], env["B"], env["C"])
			checkGradients(t,
				[]gradCase{
					{Name: name, Graph: text, Dims: env, Opset: 17, Seeds: 1, Tol: 1e-4, Range: [2]float64{0.5, 2.5},
						In: map[string]*executor.Tensor{"which": which}},
				})
		}
	}
}

// TestMaybeStretched: what a file says of a stretched dim is not believed, and a dim that nobody
// knows is no other one, in a subgraph either.
func TestMaybeStretched(t *testing.T) {
	for _, c := range []struct {
		name, body string
		sums       int // at run time
	}{
		{"declared", "<float[A, 3] h> { h = Add(a, b)  loss = ReduceSum<keepdims = 0>(h) }", 2},
		{"unknown", "{ u = Reshape(b, shape)  h = Mul(a, u)  y = Mul(h, a)  loss = ReduceSum<keepdims = 0>(y) }", 4},
		{"in a branch",
			`{ u = Reshape(b, shape)  y = If(c) <then_branch = g1 () => (float[?, 3] t) { h = Mul(u, a)  t = Mul(a, h) },
			else_branch = g2 () => (float[?, 3] e) { e = Identity(u) }>  loss = ReduceSum<keepdims = 0>(y) }`, 4},
	} {
		m, err := graph.Parse(
			`<ir_version: 8, opset_import: ["" : 17]> g (float[A, 3] a, float[B, 3] b, int64[2] shape, bool c) => (float loss) `+c.body, c.name)
		require.NoError(t, err)
		j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"a", "b"}})
		require.NoError(t, err)
		require.Equal(t, c.sums, runTimeSums(j.Model.Graph), c.name)
	}
}

func runTimeSums(g *graph.Graph) (sums int) {
	for _, n := range g.Nodes {
		if n.Op == "ReduceSum" && n.Int("noop_with_empty_axes", 0) == 1 {
			sums++
		}
		n.Subgraphs(func(_ string, sub *graph.Graph) { sums += runTimeSums(sub) })
	}
	return sums
}

// TestNeverStretched: of a table of positions Min(positions, T) rows are added to T of them. None of them is
// stretched but that of a table with one row, for otherwise a single row says that T is 1. So no node
// finds that out at run time, whose results would have sizes that depend on data. With as many positions as
// a symbol says one does.
func TestNeverStretched(t *testing.T) {
	for positions, sums := range map[string]int{"1": 0, "2": 0, "3": 0, "P": 1} {
		text := fmt.Sprintf(`g (double[N, T, 2] x, double[1, %s, 2] table) => (double loss)
			<int64[1] none = {0}, int64[1] one = {1}>
			{ s = Shape<start = 1, end = 2>(x)  p = Slice(table, none, s, one)  a = Add(x, p)  y = Mul(a, a)
			  loss = ReduceSum<keepdims = 0>(y) }`, positions)
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "table")
		require.NoError(t, err)
		j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"x", "table"}})
		require.NoError(t, err)
		require.Equal(t, sums, runTimeSums(j.Model.Graph), "%s positions", positions)
		for size := int64(1); size <= 3; size++ {
			for rows := int64(1); rows <= 3; rows++ {
				if positions != "P" && positions != fmt.Sprint(rows) || rows > 1 && rows < size {
					continue // another number, or the operands do not fit
				}
				checkGradients(t, []gradCase{{Name: fmt.Sprint(size, " of ", rows), Graph: text,
					Dims: symbolic.Env{"N": 2, "T": size, "P": rows}, Seeds: 1}})
			}
		}
	}
}
