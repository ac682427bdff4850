package autograd_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// TestSumGradients: gradients that are added onto what a value has from other readers.
func TestSumGradients(t *testing.T) {
	ids := tensors{"i": ints([]int{2, 2}, 4, 0, 4, 1)}
	checkGradients(t, []gradCase{
		{Name: "tied table", In: ids,
			Graph: `g (double[5, 3] w, int64[2, 2] i) => (double[2, 2, 5] y) { h = Gather(w, i)  t = Transpose(w)  y = MatMul(h, t) }`},
		{Name: "tied table, symbolic", In: ids, Dims: symbolic.Env{"V": 5, "D": 3, "S": 2},
			Graph: `g (double[V, D] w, int64[2, S] i) => (double[2, S, V] y) { h = Gather(w, i)  t = Transpose(w)  y = MatMul(h, t) }`},
		{Name: "two gathers", In: tensors{"i": ids["i"], "k": ints([]int{}, 4)},
			Graph: `g (double[5, 3] w, int64[2, 2] i, int64 k) => (double[2, 2, 3] y) { a = Gather(w, i)  b = Gather(w, k)  y = Mul(a, b) }`},
		{Name: "constant and different, then again", Opset: 16,
			Graph: `g (double[5, 3] w) => (double[3, 3] y) <int64[3] i = {4, 0, 2}> { a = Gather(w, i)  b = Gather(w, i)  y = Mul(a, b) }`},
		{Name: "elements", In: tensors{"i": ints([]int{2, 2}, 0, -1, 0, 2)},
			Graph: `g (double[3, 2] x, int64[2, 2] i) => (double[2, 2] y) { a = GatherElements(x, i)  b = GatherElements(x, i)  y = Mul(a, b) }`},
		{Name: "ND", In: tensors{"i": ints([]int{2, 2}, 0, 1, 0, 1)},
			Graph: `g (double[3, 2, 2] x, int64[2, 2] i) => (double[2, 2] y) { a = GatherND(x, i)  b = GatherND(x, i)  y = Mul(a, b) }`},
	})
}

// tied is a graph whose table is looked up and multiplied by; untied has two tables in its place.
const (
	tied = `<ir_version: 8, opset_import: ["" : 17]> g (float[V, 8] w, int64[N] i, float[N, V] q) => (float loss) {
		h = Gather(w, i)  p = MatMul(q, w)  s = Mul(h, p)  t = Tanh(s)  loss = ReduceSum<keepdims = 0>(t) }`
	untied = `<ir_version: 8, opset_import: ["" : 17]> g (float[V, 8] w, int64[N] i, float[N, V] q, float[V, 8] u) => (float loss) {
		h = Gather(w, i)  p = MatMul(q, u)  s = Mul(h, p)  t = Tanh(s)  loss = ReduceSum<keepdims = 0>(t) }`
)

// TestTiedTable: the gradient of a tied table is the sum of its two readers', with the sum's own bits
// where no row is looked up twice and within rounding elsewhere, and takes the memory of one table.
func TestTiedTable(t *testing.T) {
	const rows = 1000
	gradients := func(text string, i []int64, wrt ...string) []*executor.Tensor {
		m, err := graph.Parse(text, "g")
		require.NoError(t, err)
		inferred(t, m)
		j, err := autograd.Differentiate(m, autograd.Options{Wrt: wrt})
		require.NoError(t, err)
		env := symbolic.Env{"V": rows, "N": int64(len(i))}
		filler, in := dataset.NewFiller(m.Graph, env, 1), tensors{"i": ints([]int{len(i)}, i...)}
		for name, at := range map[string]int{"w": 0, "q": 2, "u": 0} {
			in[name], err = filler.Fill(m.Graph.Inputs[at].Value)
			require.NoError(t, err)
		}
		if len(wrt) == 1 {
			timeline := simulated(t, j.Model, env)
			require.Less(t, timeline.Peak.Bytes, 3*int64(len(in["w"].Data))/2,
				"at node %q", j.Model.Graph.NodeLabel(timeline.Peak.Node))
		}
		return newRunner(t, j.Model, env)(in)[1:]
	}
	for _, c := range []struct {
		ids   []int64
		exact bool
	}{{[]int64{3, 1, 999, 40}, true}, {[]int64{3, 1, 3, 3, 40, 1}, false}} {
		got, parts := gradients(tied, c.ids, "w"), gradients(untied, c.ids, "w", "u")
		sum := slices.Clone(executor.Of[float32](parts[1]))
		for k, x := range executor.Of[float32](parts[0]) {
			sum[k] += x
		}
		for k, x := range executor.Of[float32](got[0]) {
			if c.exact {
				require.Equal(t, math.Float32bits(sum[k]+0), math.Float32bits(x+0), "element %d", k)
			}
			require.InDelta(t, sum[k], x, 1e-6, "element %d", k)
		}
	}
}

// simulated executes a training graph in the order of its file under the memory model.
func simulated(t *testing.T, m *graph.Model, env symbolic.Env) *live.Timeline {
	t.Helper()
	sizes, err := live.EvalSizes(m.Graph, env)
	require.NoError(t, err)
	sizes.States, err = live.FindStates(m)
	require.NoError(t, err)
	timeline, err := live.Simulate(m.Graph, graph.FileOrder(m.Graph), sizes)
	require.NoError(t, err)
	return timeline
}

// TestSumsInPlace: the memory model writes every sum of gradients in the sample models over one of
// its terms.
func TestSumsInPlace(t *testing.T) {
	env := symbolic.Env{"batch": 4, "seq": 12}
	sums := 0
	for _, s := range graphtest.Tiny.Files(t) {
		m, file, err := onnx.Open(s.File)
		require.NoError(t, err)
		defer file.Close()
		inferred(t, m)
		loss := autograd.Loss{Name: "loss"}
		if _, ok := m.Graph.Lookup("loss"); !ok {
			loss = autograd.Loss{Name: "logits", Seed: true}
		}
		j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{loss}})
		require.NoError(t, err, s.Name)
		timeline := simulated(t, j.Model, env)
		g := j.Model.Graph
		for _, n := range g.Nodes[j.Backward:] {
			if n.Op != "Add" || !g.Values[n.Outputs[0]].Type.DType.IsFloat() {
				continue
			}
			sums++
			require.NotEqual(t, n.Outputs[0], timeline.Root[n.Outputs[0]], "%s: node %q", s.Name, n.Name)
		}
	}
	require.Greater(t, sums, 50)
}

// TestTransposedTable: a table of which the transpose is multiplied by has no second gradient.
func TestTransposedTable(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[V, 64] w, int64[N] i) => (float loss) {
		h = Gather(w, i)  t = Transpose<perm = [1, 0]>(w)  s = MatMul(h, t)  loss = SoftmaxCrossEntropyLoss(s, i) }`, "g")
	require.NoError(t, err)
	inferred(t, m)
	j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w"}})
	require.NoError(t, err)
	const table = 4 * 1000 * 64
	timeline := simulated(t, j.Model, symbolic.Env{"V": 1000, "N": 4})
	require.Less(t, timeline.Peak.Bytes, int64(3*table/2), "at node %q", j.Model.Graph.NodeLabel(timeline.Peak.Node))
}
