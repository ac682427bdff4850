package cpu_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	_ "memopt/internal/test/rapidflags"
)

// drawIndexing writes a graph that looks things up by indices and labels that are inputs, by what is
// made of them, and by places that operators find.
func drawIndexing(t *rapid.T) string {
	var b strings.Builder
	vectors, columns := []string{"i", "j", "l"}, []string{"u"} // int64[4] and int64[4, 1]
	pick := func(names []string) string { return rapid.SampledFrom(names).Draw(t, "operand") }
	for k := range rapid.IntRange(5, 12).Draw(t, "nodes") {
		v, f := fmt.Sprint("v", k), fmt.Sprint("f", k)
		axis := rapid.IntRange(0, 1).Draw(t, "axis")
		vector, column := func(format string, args ...any) { // makes int64[4]
			fmt.Fprintf(&b, "[n%d] %s = %s\n", k, v, fmt.Sprintf(format, args...))
			vectors = append(vectors, v)
		}, func(format string, args ...any) { // makes int64[4, 1]
			fmt.Fprintf(&b, "[n%d] %s = %s\n", k, v, fmt.Sprintf(format, args...))
			columns = append(columns, v)
		}
		result := func(format string, args ...any) {
			fmt.Fprintf(&b, "[n%d] %s = %s\n", k, f, fmt.Sprintf(format, args...))
		}
		switch rapid.IntRange(0, 14).Draw(t, "kind") {
		case 0, 1:
			result("Gather<axis = %d>(x, %s)", axis, pick(vectors))
		case 2:
			result("GatherElements<axis = 1>(s, %s)", pick(columns))
		case 3:
			result("ScatterElements<axis = 1>(s, %s, c)", pick(columns))
		case 4:
			result("ScatterND(x, %s, rows)", pick(columns))
		case 5:
			result("SoftmaxCrossEntropyLoss<ignore_index = %d>(s, %s)",
				rapid.IntRange(-3, -2).Draw(t, "ignored"), pick(vectors))
		case 6:
			result("NegativeLogLikelihoodLoss(s, %s)", pick(vectors))
		case 7:
			from := pick(vectors)
			fmt.Fprintf(&b, "[e%d] e%d = Equal(%s, %s)\n", k, k, pick([]string{from, from, pick(vectors)}),
				pick([]string{"minus2", "minus3"}))
			vector("Where(e%d, %s, %s)", k, pick([]string{"zero", "minus2"}), from)
		case 8:
			column("Unsqueeze(%s, one)", pick(vectors))
		case 9:
			vector("Reshape(%s, four)", pick(columns))
		case 10:
			vector("ArgMax<axis = 1, keepdims = 0>(s)")
		case 11:
			vector("Add(%s, %s)", pick(vectors), pick(vectors))
		case 12:
			fmt.Fprintf(&b, "[t%d] t%d, %s = TopK<axis = 1>(s, one)\n", k, k, v)
			columns = append(columns, v)
		case 13:
			vector("Div(%s, %s)", pick(vectors), pick(append(vectors, "minus2")))
		case 14:
			fmt.Fprintf(&b, "[c%d] c%d = Cast<to = 6>(%s)\n", k, k, pick(vectors))
			result("Gather(x, c%d)", k)
		}
	}
	return b.String()
}

var failingNode = regexp.MustCompile(`node "([a-z0-9]+)"`)

// TestFailures: a node of which the table says that data cannot make it fail does not fail, whatever
// the data are.
func TestFailures(t *testing.T) {
	drawn, failed, safe := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		drawn++
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[5, 6] x, float[4, 7] s, float[4, 1] c,
			float[4, 6] rows, int64[4] i, int64[4] j, int64[4] l, int64[4, 1] u) => (float[5, 6] y)
			< int64 zero = {0}, int64 minus2 = {-2}, int64 minus3 = {-3}, int64[1] one = {1}, int64[1] four = {4} > {
			`+drawIndexing(t)+" [last] y = Neg(x) }", "g")
		require.NoError(t, err)
		types, err := op.Infer(m)
		require.NoError(t, err)
		g := m.Graph
		s, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{Threads: 1})
		require.NoError(t, err)
		defer s.Close()
		low := rapid.SampledFrom([]int64{-9, -4, -9, 0}).Draw(t, "low")
		high := rapid.SampledFrom([]int64{3, 9, 9}).Draw(t, "high")
		for _, d := range g.Inputs {
			x := &executor.Tensor{DType: d.Type.DType, Shape: executor.EvalShape(d.Type, nil)}
			n, _ := executor.Bytes(x.DType, x.Shape)
			x.Data = make([]byte, n)
			if x.DType == graph.Int64 {
				for k := range x.Len() {
					executor.Of[int64](x)[k] = rapid.Int64Range(low, high).Draw(t, "index")
				}
			} else {
				for k := range x.Len() {
					executor.Of[float32](x)[k] = float32(rapid.IntRange(-3, 3).Draw(t, "element"))
				}
			}
			require.NoError(t, s.SetInput(g.ValueName(d.Value), x))
		}
		failures := op.Failures(g, types, graph.FileOrder(g), nil)
		for _, f := range failures {
			if f == op.NeverFails {
				safe++
			}
		}
		if err = s.Run(context.Background()); err == nil {
			return
		}
		failed++
		name := failingNode.FindStringSubmatch(err.Error())
		require.NotNil(t, name, err)
		for id := range g.Nodes {
			if g.NodeLabel(graph.NodeID(id)) == name[1] {
				require.Equal(t, op.FailsOnce, failures[id], "%v\n%s", err,
					graph.Format(m, graph.FormatOptions{}))
				return
			}
		}
		require.Fail(t, "no such node", err)
	})
	require.Greater(t, 2*failed, drawn, "half of the graphs fail")
	require.Greater(t, safe, 3*drawn, "and have nodes that never do")
}
