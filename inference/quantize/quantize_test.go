package quantize_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/inference/compare"
	"memopt/inference/optimize"
	"memopt/inference/quantize"
	"memopt/internal/test/graphtest"
	_ "memopt/internal/test/rapidflags"
)

// read parses the text of a model; its symbols are 3.
func read(t require.TestingT, text string) *memopt.Model {
	if !strings.HasPrefix(text, "<") {
		text = `<ir_version: 8, opset_import: ["": 17]> ` + text
	}
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	model, err := memopt.New(m, memopt.Options{})
	require.NoError(t, err)
	for _, symbol := range model.Symbols() {
		model.Dims[symbol] = 3
	}
	return model
}

// differences runs both models of a result on made-up data.
func differences(t require.TestingT, r *quantize.Result) []compare.Output {
	list, err := compare.Outputs(context.Background(), r.Start, r.Model, compare.Options{
		Engine: verify.On(cpu.Device{}), Seed: 1})
	require.NoError(t, err)
	require.Len(t, list, len(r.Model.Graph.Outputs))
	return list
}

// TestQuantize runs testdata: "quantize" parses a graph, quantizes it and prints the weights, what was
// left alone and the new graph. Outputs are near those in floats. The texts were checked by reading
// beside ONNX's specification and the numbers by hand; TestNumbers has the arithmetic.
func TestQuantize(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			m := read(t, d.Input)
			o := quantize.Options{Signed: !d.HasArg("uint8"), PerChannel: d.HasArg("channels"),
				ReduceRange: d.HasArg("reduce")}
			if d.HasArg("exclude") {
				var globs string
				d.ScanArgs(t, "exclude", &globs)
				o.Exclude = strings.Split(globs, "+")
			}
			r, err := quantize.Run(t.Context(), m, o)
			if err != nil {
				return err.Error() + "\n"
			}
			for _, out := range differences(t, r) {
				require.LessOrEqual(t, out.MaxAbs, 0.03*out.MaxValue, "%s: %s", d.Pos, out.Name)
			}
			require.NoError(t, graph.FileOrder(r.Model.Graph).Check(r.Model.Graph), d.Pos)
			var b strings.Builder
			for _, w := range r.Weights {
				fmt.Fprintf(&b, "%s%v for %v, per channel: %v, %d to %d bytes, error %.3g of %.3g\n",
					w.Name, w.Dims, w.Nodes, w.PerChannel, w.Bytes, w.Quantized, w.MaxError, w.MaxAbs)
			}
			for _, l := range r.Left {
				fmt.Fprintf(&b, "left: %s (%s), weight %s: %s\n", l.Node, l.Op, l.Weight, l.Why)
			}
			return b.String() + graph.Format(r.Model.Model, graph.FormatOptions{})
		})
	})
}

// product is x·w as the quantized graph should compute it, by plain loops: x is quantized to uint8 with
// one scale as DynamicQuantizeLinear is defined, w by the scheme of the package's documentation.
func product(x []float32, w [][]float32, o quantize.Options) []float64 {
	k, n := len(w), len(w[0])
	low, high := float32(0), float32(0)
	for _, e := range x {
		low, high = min(low, e), max(high, e)
	}
	sx := (high - low) / 255
	zx := float32(0)
	if sx != 0 {
		zx = float32(math.RoundToEven(float64(min(max(-low/sx, 0), 255))))
	}
	xq := make([]int64, len(x))
	for i, e := range x {
		q := float32(0)
		if sx != 0 {
			q = float32(math.RoundToEven(float64(e / sx)))
		}
		xq[i] = int64(min(max(q+zx, 0), 255)) - int64(zx)
	}
	least, most := -127.0, 127.0
	switch {
	case !o.Signed && o.ReduceRange:
		least, most = 0, 127
	case !o.Signed:
		least, most = 0, 255
	case o.ReduceRange:
		least, most = -64, 64
	}
	wq := make([][]int64, k)
	for i := range wq {
		wq[i] = make([]int64, n)
	}
	scales := make([]float64, n)
	for c := range n {
		low, high := 0.0, 0.0
		for i := range k {
			for j := range n {
				if j == c || !o.PerChannel {
					low, high = min(low, float64(w[i][j])), max(high, float64(w[i][j]))
				}
			}
		}
		if o.Signed {
			high = max(high, -low)
			low = -high
		}
		scale := float32((high - low) / (most - least))
		zero := 0.0
		if scale < 0x1p-126 {
			scale = 1
		} else if !o.Signed {
			zero = math.RoundToEven(least - float64(float32(low)/scale))
		}
		scales[c] = float64(scale)
		for i := range k {
			q := math.RoundToEven(float64(w[i][c]/scale)) + zero
			wq[i][c] = int64(min(max(q, least), most)) - int64(zero)
		}
	}
	y := make([]float64, 0, len(x)/k*n)
	for r := 0; r < len(x); r += k {
		for c := range n {
			sum := int64(0)
			for i := range k {
				sum += xq[r+i] * wq[i][c]
			}
			y = append(y, float64(float32(sum)*(sx*float32(scales[c]))))
		}
	}
	return y
}

// TestNumbers: the quantized graph computes what plain loops do, for all kinds of weights.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, n, rows := rapid.IntRange(1, 6).Draw(t, "k"), rapid.IntRange(1, 5).Draw(t, "n"),
			rapid.IntRange(1, 3).Draw(t, "rows")
		number := rapid.Custom(func(t *rapid.T) float32 {
			return float32(rapid.IntRange(-1000, 1000).Draw(t, "x")) / 256
		})
		x := rapid.SliceOfN(number, rows*k, rows*k).Draw(t, "x")
		w := make([][]float32, k)
		var flat []string
		for i := range w {
			w[i] = rapid.SliceOfN(number, n, n).Draw(t, "w")
			for _, e := range w[i] {
				flat = append(flat, fmt.Sprint(e))
			}
		}
		o := quantize.Options{Signed: rapid.Bool().Draw(t, "signed"), PerChannel: rapid.Bool().Draw(t, "channels"),
			ReduceRange: rapid.Bool().Draw(t, "reduce")}
		m := read(t, fmt.Sprintf("g (float[%d, %d] x) => (float[%d, %d] y) <float[%d, %d] w = {%s}> "+
			"{ y = MatMul (x, w) }", rows, k, rows, n, k, n, strings.Join(flat, ", ")))
		r, err := quantize.Run(context.Background(), m, o)
		require.NoError(t, err)
		ex := r.Model.Execution()
		in := map[string]*executor.Tensor{"x": executor.NewTensor(graph.Float32, []int{rows, k}, x...)}
		run, err := verify.Execute(context.Background(), ex.Planned, in,
			verify.Options{Engine: verify.On(cpu.Device{}), Repeat: 1})
		require.NoError(t, err)
		got := executor.Of[float32](run.Outputs[0].Tensor)
		for i, want := range product(x, w, o) {
			require.InDelta(t, want, float64(got[i]), 1e-6*(1+math.Abs(want)), "element %d", i)
		}
	})
}

// TestErrors: the error of a weight is at most half a scale, and as reported.
func TestErrors(t *testing.T) {
	m := read(t, `g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, -0.3, 0.01, 2.54, 0, 0.5}> {
		y = MatMul (x, w) }`)
	r, err := quantize.Run(t.Context(), m, quantize.Options{Signed: true})
	require.NoError(t, err)
	w := r.Weights[0]
	require.InDelta(t, 2.54, w.MaxAbs, 1e-6)
	require.LessOrEqual(t, w.MaxError, 2.54/127/2*1.0001)
	require.InDelta(t, 0.01, w.MaxError, 1e-6, "0.01 is half of the scale 0.02")
}

// TestLongest: a product whose sums may leave 32 bits stays; one element less does not.
func TestLongest(t *testing.T) {
	for _, c := range []struct {
		o       quantize.Options
		k       int64
		refused bool
	}{{quantize.Options{Signed: true}, 66311, false}, {quantize.Options{Signed: true}, 66312, true},
		{quantize.Options{}, 33025, false}, {quantize.Options{}, 33026, true}} {
		most, weight := int64(255), int64(127)
		if !c.o.Signed {
			weight = 255
		}
		require.Equal(t, c.refused, c.k*most*weight > math.MaxInt32)
		m := read(t, fmt.Sprintf("g (float[1, %d] x) => (float[1, 1] y) { y = Neg (x) }", c.k))
		g := m.Graph
		raw := make([]float32, c.k)
		for i := range raw {
			raw[i] = -1
		}
		v, err := g.AddInitializer(graph.Float32Tensor("w", []int64{c.k, 1}, raw...))
		require.NoError(t, err)
		g.Nodes[0].Op, g.Nodes[0].Inputs = "MatMul", append(g.Nodes[0].Inputs, v)
		m, err = memopt.New(m.Model, memopt.Options{})
		require.NoError(t, err)
		r, err := quantize.Run(t.Context(), m, c.o)
		if c.refused {
			require.ErrorIs(t, err, quantize.ErrNothing)
			require.ErrorContains(t, err, "may leave 32 bits")
			continue
		}
		require.NoError(t, err)
		x := make([]float32, c.k)
		for i := range x {
			x[i] = 1
		}
		run, err := verify.Execute(t.Context(), r.Model.Execution().Planned,
			map[string]*executor.Tensor{"x": executor.NewTensor(graph.Float32, []int{1, int(c.k)}, x...)},
			verify.Options{Engine: verify.On(cpu.Device{}), Repeat: 1})
		require.NoError(t, err)
		require.InEpsilon(t, -float64(c.k), float64(executor.Of[float32](run.Outputs[0].Tensor)[0]), 1e-5)
	}
}

// TestRefused: what cannot be quantized is an error that says why.
func TestRefused(t *testing.T) {
	for _, ex := range examples.All() {
		m, err := memopt.Example(ex.Name, memopt.Options{})
		require.NoError(t, err)
		_, err = quantize.Run(t.Context(), m, quantize.Options{})
		require.ErrorIs(t, err, optimize.ErrTraining, ex.Name)
	}
	for text, want := range map[string]string{
		`g (float[N, 2] x) => (float[N, 2] y) { y = Neg (x) }`: "it has no MatMul, Gemm or Gather of a constant weight",
		`<ir_version: 8, opset_import: ["": 10]> g (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
			y = MatMul (x, w) }`: "imports operator set 10 of ONNX, and DynamicQuantizeLinear came with 11: raise it with " +
			"Opset 11",
		`g (double[N, 2] x) => (double[N, 2] y) <double[2, 2] w = {1, 2, 3, 4}> { y = MatMul (x, w) }`: "the weight is " +
			"double",
		`g (float[N, 1] x) => (float[N, 1] y) <float[1, 1] w = {inf}> { y = MatMul (x, w) }`: "not finite",
	} {
		_, err := quantize.Run(t.Context(), read(t, text), quantize.Options{})
		require.ErrorContains(t, err, want)
	}
}

// TestOpset: a model of an old operator set is quantized when it is raised.
func TestOpset(t *testing.T) {
	m := read(t, `<ir_version: 8, opset_import: ["": 9]> g (float[N, 2] x) => (float[N, 2] y)
		<float[2, 2] w = {1, 2, 3, 4}> { y = MatMul (x, w) }`)
	r, err := quantize.Run(t.Context(), m, quantize.Options{Prepare: optimize.Options{Opset: 11}})
	require.NoError(t, err)
	require.Equal(t, int64(11), r.Model.OpsetVersion(""))
	require.NotEmpty(t, r.Changes)
}

// TestSamples quantizes PyTorch's exports in every way: outputs are near, files are smaller, and the
// same input gives the same file.
func TestSamples(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		t.Run(s.Name, func(t *testing.T) {
			for i := range 8 {
				o := quantize.Options{Signed: i&1 != 0, PerChannel: i&2 != 0, ReduceRange: i&4 != 0,
					Prepare: optimize.Options{Inference: true}}
				m, err := memopt.Open(s.File, memopt.Options{})
				require.NoError(t, err)
				for _, symbol := range m.Symbols() {
					m.Dims[symbol] = 4
				}
				r, err := quantize.Run(t.Context(), m, o)
				if err != nil {
					require.ErrorIs(t, err, quantize.ErrNothing)
					t.Skipf("%v", err)
				}
				for _, out := range differences(t, r) {
					require.LessOrEqual(t, out.RMS, 0.05*out.RMSValue, "%+v: %s", o, out.Name)
				}
				again, err := quantize.Run(t.Context(), m, o)
				require.NoError(t, err)
				require.NoError(t, graphtest.Equal(r.Model.Model, again.Model.Model))
				require.NoError(t, m.Close())
			}
		})
	}
}
