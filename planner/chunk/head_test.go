package chunk_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/planner/chunk"
)

// BenchmarkHeadInParts measures how much longer a step of a language model's head takes in 8 exact
// parts than as a whole: the median of the ratios of neighbouring steps, of which there are two for
// each run. Run it with -benchtime 8x.
func BenchmarkHeadInParts(b *testing.B) {
	for _, c := range []struct{ rows, hidden, vocab int64 }{{4096, 512, 32000}, {4096, 768, 50257}} {
		b.Run(fmt.Sprintf("%dx%dx%d", c.rows, c.hidden, c.vocab), func(b *testing.B) {
			m := headOf(b, map[string]int64{"rows": c.rows, "hidden": c.hidden, "classes": c.vocab})
			v, err := slowdown(b, m, "l", 8, b.N)
			require.NoError(b, err)
			s := v.Slowdown()
			b.ReportMetric(s.Ratio, "ratio")
			b.ReportMetric(s.Least, "least")
			b.ReportMetric(s.Most, "most")
			b.ReportMetric(float64(s.Pairs), "pairs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// TestHeadInOneStage: of a head with ONNX's own loss and memopt's gradient, what the loss gives at the
// labels is computed in the same parts as the scores, which so need not be kept or made again, and
// every output has the bits of the whole.
func TestHeadInOneStage(t *testing.T) {
	m := headOf(t, map[string]int64{"rows": 1536, "hidden": 16, "classes": 400})
	v, err := slowdown(t, m, "l", 8, 1)
	require.NoError(t, err)
	require.Nil(t, v.First)
	whole, parts := v.Baseline.Measured.Live, v.Planned.Measured.Live
	require.Less(t, float64(parts), 0.3*float64(whole), "%d bytes in parts, %d as a whole", parts, whole)
}

// headOf is a training step of a head alone.
func headOf(t testing.TB, dims map[string]int64) *memopt.Model {
	read, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
head (float[rows, hidden] x, int64[rows] labels, float[hidden, classes] scores, float[hidden] bias) => (float loss)
{ h = Add(x, bias)  l = MatMul(h, scores)  loss = SoftmaxCrossEntropyLoss(l, labels) }`, "head")
	require.NoError(t, err)
	forward, err := memopt.New(read, memopt.Options{Dims: dims})
	require.NoError(t, err)
	m, _, err := forward.Differentiate(autograd.Options{Params: []string{"scores", "bias"}}, nil)
	require.NoError(t, err)
	return m
}

// slowdown runs a graph of which a value's region is in exact parts beside the whole one.
func slowdown(t testing.TB, m *memopt.Model, value string, parts, runs int) (*verify.Verdict, error) {
	whole, err := m.Plan(t.Context(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	bound, err := chunk.Bind(m.Model, m.Dims)
	require.NoError(t, err)
	order := whole.Analysis.Order
	cut, err := chunk.Around(bound, order, value, "0", parts, 0.5, chunk.Exact)
	require.NoError(t, err)
	a, err := chunk.Apply(t.Context(), m.Model, order, whole.Analysis.Boundary, m.Dims, []chunk.Cut{*cut})
	require.NoError(t, err)
	inParts, err := memopt.New(a.Model, memopt.Options{})
	require.NoError(t, err)
	x := whole.Execution()
	if err := x.Fill(1); err != nil {
		return nil, err
	}
	side := inParts.Execution().Baseline
	side.Order = graph.FileOrder(inParts.Graph)
	x.Planned = side
	return x.Verify(t.Context(), verify.Options{Engine: verify.On(cpu.Device{}), Repeat: runs, Warmup: 1,
		Session: executor.Options{Threads: 2}}, verify.Tolerance{Bitwise: true})
}
