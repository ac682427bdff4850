package optimize_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/onnx"
	"memopt/graph/roles"
	"memopt/inference/compare"
	"memopt/inference/edit"
	"memopt/inference/optimize"
	"memopt/internal/test/graphtest"
)

// read parses the text of a model; its symbols are bound to sizes.
func read(t require.TestingT, text string, dims map[string]int64) *memopt.Model {
	if !strings.HasPrefix(text, "<") {
		text = `<ir_version: 8, opset_import: ["": 17]> ` + text
	}
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	model, err := memopt.New(m, memopt.Options{Dims: dims})
	require.NoError(t, err)
	return model
}

// outputs runs both models of a result on made-up data.
func outputs(t require.TestingT, r *optimize.Result, seed uint64) []compare.Output {
	list, err := compare.Outputs(context.Background(), r.Start, r.Model, compare.Options{
		Engine: verify.On(cpu.Device{}), Seed: seed, Tolerance: verify.Tolerance{Abs: 1e-5, Rel: 1e-4}})
	require.NoError(t, err)
	require.Len(t, list, len(r.Model.Graph.Outputs))
	return list
}

// sound checks what holds of every result: outputs are equal, bit for bit where all that was done is
// exact, names of inputs and outputs are the old ones, nothing grows, and a second run finds nothing.
func sound(t require.TestingT, r *optimize.Result, o optimize.Options, label string) {
	exact := true
	for _, d := range r.Done {
		exact = exact && d.Exact
	}
	for _, out := range outputs(t, r, 1) {
		require.True(t, out.Equal, "%s: %s: %s", label, out.Name, out.First)
		require.True(t, out.Bits || !exact, "%s: %s differs, and all passes were exact: %v", label, out.Name, r.Done)
	}
	require.LessOrEqual(t, r.After.Nodes, r.Before.Nodes, label)
	if o.Growth == 0 && o.Opset == 0 {
		require.LessOrEqual(t, r.After.Bytes-noted(t, r.Model), r.Before.Bytes, "%s: %v", label, r.Done)
	}
	require.NoError(t, graph.FileOrder(r.Model.Graph).Check(r.Model.Graph), label)
	o.Opset, o.Inference = 0, false
	again, err := optimize.Run(context.Background(), r.Model, o)
	require.NoError(t, err, label)
	require.Empty(t, again.Done, "%s: all is done at once", label)
}

// noted is how many bytes of a model say which of its constants are no weights.
func noted(t require.TestingT, m *memopt.Model) int64 {
	with, err := edit.SizeOf(m.Model)
	require.NoError(t, err)
	bare := m.Clone()
	bare.Metadata = slices.DeleteFunc(bare.Metadata, func(p graph.Property) bool { return p.Key == roles.RecordKey })
	without, err := edit.SizeOf(bare)
	require.NoError(t, err)
	return with.Bytes - without.Bytes
}

// TestPasses runs testdata: "optimize" parses a graph, optimizes it and prints what was done, what was
// left alone and the new graph; "sound" is asserted of each. Dims of all symbols are 3. The expected
// texts were checked by reading beside ONNX's specification; that they compute the same is measured.
func TestPasses(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			m := read(t, d.Input, nil)
			for _, symbol := range m.Symbols() {
				m.Dims[symbol] = 3
			}
			var o optimize.Options
			var opset, growth int
			d.MaybeScanArgs(t, "opset", &opset)
			d.MaybeScanArgs(t, "growth", &growth)
			o.Opset, o.Growth = int64(opset), int64(growth)
			o.Exact, o.Inference, o.FreezeInputs = d.HasArg("exact"), d.HasArg("inference"), d.HasArg("freeze")
			if d.HasArg("skip") {
				var skip string
				d.ScanArgs(t, "skip", &skip)
				o.Skip = strings.Split(skip, "+")
			}
			r, err := optimize.Run(t.Context(), m, o)
			if err != nil {
				return err.Error() + "\n"
			}
			sound(t, r, o, d.Pos)
			var b strings.Builder
			for _, x := range r.Done {
				fmt.Fprintf(&b, "%s: %s %d\n", x.Pass, x.What, x.Count)
			}
			for _, x := range r.Left {
				fmt.Fprintf(&b, "left: %s: %s: %s\n", x.Pass, x.Node, x.Why)
			}
			return b.String() + graph.Format(r.Model.Model, graph.FormatOptions{})
		})
	})
}

// TestTraining: a graph with a backward half is refused, whatever it is.
func TestTraining(t *testing.T) {
	for _, ex := range examples.All() {
		m, err := memopt.Example(ex.Name, memopt.Options{})
		require.NoError(t, err)
		_, err = optimize.Run(t.Context(), m, optimize.Options{})
		require.ErrorIs(t, err, optimize.ErrTraining, ex.Name)
	}
}

// TestSamples optimizes PyTorch's exports: outputs are equal, in the file's operator set and in a newer
// one, as they are and in the form for evaluation.
func TestSamples(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		t.Run(s.Name, func(t *testing.T) {
			for _, o := range []optimize.Options{{}, {Inference: true}, {Inference: true, Opset: 20}, {Exact: true}} {
				m, err := memopt.Open(s.File, memopt.Options{})
				require.NoError(t, err)
				for _, symbol := range m.Symbols() {
					m.Dims[symbol] = 4
				}
				r, err := optimize.Run(t.Context(), m, o)
				require.NoError(t, err)
				sound(t, r, o, fmt.Sprintf("%+v", o))
				require.NoError(t, m.Close())
			}
		})
	}
}

// TestDeclarations: what the file says of a value that a node makes is not believed. The target of a
// reshape counts, which a runtime obeys.
func TestDeclarations(t *testing.T) {
	m := read(t, `g (float[2, 3] x) => (float[3, 2] y) <float[2, 3] a, int64[2] s = {3, 2}> {
		a = Reshape (x, s)
		y = Neg (a) }`, nil)
	r, err := optimize.Run(t.Context(), m, optimize.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Done)
	require.Len(t, r.Model.Graph.ValueInfo, 1, "what the file says stays in it")
}

// TestUncomputable: constants that cannot be computed stay with their nodes, which fail in a run, if
// they run at all, and the others are computed.
func TestUncomputable(t *testing.T) {
	m := read(t, `g (float[2] x) => (float[2] y) <int64[2] w = {1, 2}, int64[1] null = {0}, float[1] c = {1}> {
		[far] d = Div (w, null)
		v = Cast <to = 1> (d)
		[near] n = Neg (c)
		a = Add (x, v)
		y = Add (a, n) }`, nil)
	r, err := optimize.Run(t.Context(), m, optimize.Options{})
	require.NoError(t, err)
	require.Equal(t, []optimize.Done{{Pass: "constants", What: "Neg", Exact: true, Count: 1}}, r.Done)
	require.Len(t, r.Left, 1)
	require.Contains(t, r.Left[0].Why, `its constants cannot be computed: node "far" (Div): `)
}

// TestCanceled: a context that is done ends the work.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := optimize.Run(ctx, read(t, `g (float[2] x) => (float[2] y) { y = Neg (x) }`, nil), optimize.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestSkip: passes are skipped by globs, and a glob without a pass is an error that lists them.
func TestSkip(t *testing.T) {
	const text = `g (float[2] x) => (float[2] y) { a = Identity (x) b = Neg (a) c = Transpose (b) y = Transpose (c) }`
	o := optimize.Options{Skip: []string{"ident*"}}
	require.NoError(t, o.CheckSkip())
	r, err := optimize.Run(t.Context(), read(t, text, nil), o)
	require.NoError(t, err)
	require.Equal(t, "chains", r.Done[0].Pass)
	o.Skip = []string{"fold"}
	require.ErrorContains(t, o.CheckSkip(), `"fold" is no pass; the passes are [constants targets`)
}

// TestRoles: a former Constant stays no parameter in the optimized file, read again, and weights stay
// parameters; equal ones are merged with their like alone.
func TestRoles(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 10, opset_import: ["" : 21]> g (float[N, 2] x) => (float loss) <
		float[2] w = {1, 1}, float[2, 2] k = {1, 2, 3, 4}> {
			c = Constant<value = float[2] {1, 1}>()  e = Constant<value = float {2}>()
			t = Transpose(k)  h = MatMul(x, t)  a = Mul(h, c)  b = Mul(a, w)  p = Pow(b, e)
			loss = ReduceSum<keepdims = 0>(p) }`, "g")
	require.NoError(t, err)
	from, err := memopt.New(m, memopt.Options{})
	require.NoError(t, err)
	r, err := optimize.Run(t.Context(), from, optimize.Options{})
	require.NoError(t, err)
	data, err := onnx.Encode(r.Model.Model)
	require.NoError(t, err)
	again, err := memopt.Read(bytes.NewReader(data), "again", memopt.Options{})
	require.NoError(t, err)
	before, how, err := from.Differentiate(autograd.Options{}, nil)
	require.NoError(t, err)
	require.NotNil(t, before)
	require.Equal(t, []string{"w", "k"}, how.Wrt)
	_, how, err = again.Differentiate(autograd.Options{}, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"w", "t"}, how.Wrt)
}
