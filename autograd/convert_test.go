package autograd_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/internal/test/kerneltest"
	"memopt/symbolic"
)

// convertCase is a graph of an old operator set; inputs without data in In are random doubles.
type convertCase struct {
	Name, Graph string
	Opset       int64
	In          tensors
	Dims        symbolic.Env
	Says        string // a part of the report
}

var convertCases = []convertCase{
	{Name: "softmax", Opset: 7,
		Graph: `g (double[2, 3, 4] x) => (double[2, 3, 4] y, double[2, 3, 4] z) { y = Softmax(x)  z = LogSoftmax<axis = 0>(x) }`,
		Says:  "1 node Softmax: the axes from the given one on are flattened"},
	{Name: "softmax of one axis", Opset: 11,
		Graph: `g (double[2, 3, 4] x, double[N, S, 1, 1] z) => (double[2, 3, 4] y, double[N, S, 1, 1] u) { y = Softmax<axis = -1>(x)  u = Softmax(z) }`,
		Dims:  nks, Says: "2 nodes Softmax: the axis is stated"},
	{Name: "hardmax", Opset: 12,
		Graph: `g (double[N, 3, S] x) => (double[N, 3, S] y) { y = Hardmax<axis = 1>(x) }`, Dims: nks},
	{Name: "softmax of matrices", Opset: 9, Graph: `g (double[N, S] x) => (double[N, S] y) { y = Softmax(x) }`,
		Dims: nks, Says: "axis is stated"},
	{Name: "axes", Opset: 7, Graph: `g (double[2, 1, 3] x) => (double[3] y) {
		a = Squeeze<axes = [1]>(x)  b = Unsqueeze<axes = [0, 2]>(a)  c = ReduceSum<axes = [0], keepdims = 0>(b)  d = ReduceMean<axes = [1]>(c)
		e = ReduceMax(x)  f = ReduceSum<keepdims = 0>(x)  g = Squeeze(x)  h = ReduceL2<axes = [0]>(g)
		i = Add(e, f)  j = Add(i, h)  k = Squeeze<axes = [0]>(j)  l = Squeeze<axes = [1]>(d)  m = ReduceProd<axes = [0], keepdims = 0>(l)  n = Add(m, k)  y = ReduceMin<axes = [0], keepdims = 0>(n) }`,
		Says: "nodes Squeeze: axes become an input"},
	{Name: "slice", Opset: 9,
		Graph: `g (double[4, 3] x) => (double[2, 3] y, double[4, 1] z) { y = Slice<starts = [1], ends = [-1]>(x)  z = Slice<starts = [-1], ends = [9], axes = [1]>(x) }`,
		Says:  "2 nodes Slice: starts, ends and axes become inputs"},
	{Name: "top k", Opset: 9, Graph: `g (double[4, 3] x) => (double[4, 2] y, int64[4, 2] i) { y, i = TopK<k = 2>(x) }`,
		Says: "k becomes an input"},
	{Name: "clip", Opset: 10,
		Graph: `g (double[4, 3] x) => (double[4, 3] y, double[4, 3] z, double[4, 3] u) { y = Clip<min = -1.0, max = 1.0>(x)  z = Clip<max = 0.5>(x)  u = Clip(x) }`,
		Says:  "2 nodes Clip: min and max become inputs"},
	{Name: "pad", Opset: 7, Graph: `g (double[2, 3] x) => (double[5, 6] y, double[3, 3] z, double[2, 4] u) {
		y = Pad<pads = [1, 0, 2, 3], value = 1.5>(x)  z = Pad<pads = [1, 0, 0, 0], mode = "reflect">(x)  u = Pad<pads = [0, -1, 0, 2]>(x) }`, Says: "1 node Pad: pads and value become inputs"},
	{Name: "dropout", Opset: 7,
		Graph: `g (double[2, 3] x) => (double[2, 3] y, double[2, 3] mask, double[2, 3] z) { y, mask = Dropout<ratio = 0.3>(x)  z = Dropout(x) }`,
		Says:  "1 node Dropout: the mask is bool and converted"},
	{Name: "dropout with a bool mask", Opset: 10,
		Graph: `g (double[2, 3] x) => (double[2, 3] y, bool[2, 3] mask) { y, mask = Dropout<ratio = 0.3>(x) }`,
		Says:  "the ratio becomes an input"},
	{Name: "split", Opset: 11,
		Graph: `g (double[2, 6] x) => (double[2, 2] a, double[2, 4] b, double[1, 6] c, double[1, 6] d) { a, b = Split<axis = 1, split = [2, 4]>(x)  c, d = Split(x) }`,
		Says:  "the number of equal parts is stated"},
	{Name: "scatter", Opset: 9,
		Graph: `g (double[3, 2] x, int64[1, 2] i, double[1, 2] u) => (double[3, 2] y) { y = Scatter(x, i, u) }`,
		In:    tensors{"i": ints([]int{1, 2}, 2, 0)}, Says: "replaced by ScatterElements"},
	{Name: "upsample", Opset: 7, Graph: `g (double[1, 2, 3, 4] x) => (double[1, 2, 6, 6] y, double[1, 2, 6, 8] z) {
		y = Upsample<scales = [1.0, 1.0, 2.0, 1.5]>(x)  z = Upsample<mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]>(x) }`, Says: "2 nodes Upsample: replaced by Resize"},
	{Name: "upsample by an input", Opset: 9,
		Graph: `g (double[1, 2, 3, 4] x) => (double[1, 2, 7, 8] y) <float[4] s = {1, 1, 2.5, 2}> { y = Upsample(x, s) }`},
	{Name: "resize", Opset: 10,
		Graph: `g (double[1, 2, 6, 8] x) => (double[1, 2, 3, 6] y, double[1, 2, 9, 4] z) <float[4] down = {1, 1, 0.5, 0.75}, float[4] both = {1, 1, 1.5, 0.5}> {
		y = Resize(x, down)  z = Resize<mode = "linear">(x, both) }`, Says: "2 nodes Resize: asymmetric coordinates are stated"},
	{Name: "resize for networks", Opset: 11,
		Graph: `g (double[1, 2, 6, 8] x) => (double[1, 2, 9, 4] y) <float[0] r = {}, float[4] s = {1, 1, 1.5, 0.5}> {
		y = Resize<coordinate_transformation_mode = "tf_half_pixel_for_nn", nearest_mode = "floor">(x, r, s) }`, Says: "expressed by half_pixel"},
	{Name: "batch norm", Opset: 7,
		Graph: `g (double[2, 3, 4] x, double[3] s, double[3] b, double[3] m, double[3] v) => (double[2, 3, 4] y) {
		a = Abs(v)  y = BatchNormalization<spatial = 1>(x, s, b, m, a) }`},
	{Name: "batch norm that trains", Opset: 9,
		Graph: `g (double[2, 3, 4] x, double[3] s, double[3] b, double[3] m, double[3] v) => (double[2, 3, 4] y, double[3] rm, double[3] rv) {
		a = Abs(v)  y, rm, rv, sm, sv = BatchNormalization(x, s, b, m, a) }`, Says: "training_mode is stated"},
	{Name: "roi align", Opset: 10,
		Graph: `g (double[1, 2, 6, 6] x, double[1, 4] r, int64[1] i) => (double[1, 2, 2, 2] y) { y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2>(x, r, i) }`,
		In:    tensors{"i": ints([]int{1}, 0), "r": floats([]int{1, 4}, 1, 0.5, 4, 5)},
		Says:  "coordinates without a shift"},
	{Name: "grid sample", Opset: 16,
		Graph: `g (double[1, 2, 3, 4] x, double[1, 2, 2, 2] g) => (double[1, 2, 2, 2] y, double[1, 2, 2, 2] z, double[1, 2, 2, 2] u) {
		y = GridSample(x, g)  z = GridSample<mode = "bicubic">(x, g)  u = GridSample<mode = "nearest">(x, g) }`, Says: "mode bicubic is called cubic"},
	{Name: "group norm", Opset: 18,
		Graph: `g (double[2, 4, 3] x, double[2] s, double[2] b) => (double[2, 4, 3] y) { y = GroupNormalization<num_groups = 2>(x, s, b) }`,
		Says:  "repeated for the channels"},
	{Name: "group norm of unknown channels", Opset: 18,
		Graph: `g (double[2, S, 3] x, double[2] s, double[2] b) => (double[2, S, 3] y) { y = GroupNormalization<num_groups = 2>(x, s, b) }`,
		Dims:  nks},
	{Name: "subgraphs", Opset: 11, Graph: `g (double[2, 3] x, bool c) => (double[2, 3] y) { y = If<
		then_branch = t () => (double[2, 3] a) { b = Unsqueeze<axes = [2]>(x)  d = Softmax(b)  a = Squeeze<axes = [2]>(d) },
		else_branch = e () => (double[2, 3] a) { b = ReduceSum<axes = [1]>(x)  a = Sub(x, b) }>(c) }`,
		In:   tensors{"c": {DType: graph.Bool, Shape: []int{}, Data: []byte{1}}},
		Says: "1 node ReduceSum: axes become an input"},
	{Name: "nothing to do", Opset: 7,
		Graph: `g (double[2, 3] x, double[3, 2] w, double[2] b) => (double[2, 2] y) { a = Gemm(x, w, b)  y = PRelu(a, b) }`},
}

// TestConvert: models of old operator sets give the same results after they are raised.
func TestConvert(t *testing.T) {
	for _, c := range convertCases {
		t.Run(c.Name, func(t *testing.T) {
			for _, to := range []int64{c.Opset + 1, 10, 11, 12, 13, 14, 16, 17, 18, 20, 21, 23} {
				if to <= c.Opset {
					continue
				}
				g := gradCase{Name: c.Name, Graph: c.Graph, Opset: c.Opset, In: c.In, Dims: c.Dims}
				m := g.parse(t)
				in := g.inputs(t, m, rand.New(rand.NewPCG(uint64(to), 5)))
				want := newRunner(t, m, c.Dims)(in)
				raised := m.Clone()
				says, err := autograd.Convert(raised, to)
				require.NoError(t, err)
				require.NoError(t, graph.Verify(raised))
				require.Equal(t, to, raised.OpsetVersion(""))
				if to == 23 {
					require.Contains(t, strings.Join(says, "\n"), c.Says)
				}
				for i, got := range newRunner(t, raised, c.Dims)(in) {
					require.NoError(t, kerneltest.Compare(got, want[i], 1e-12), "operator set %d, output %d", to, i)
				}
			}
		})
	}
}

// TestConvertRefuses: what has no newer form is an error that names the node.
func TestConvertRefuses(t *testing.T) {
	for _, c := range []struct {
		graph    string
		from, to int64
		want     string
	}{
		{`g (double[2, 3] x) => (double[2, 3] y) { y = Relu(x) }`, 17, 13, "operator set 17 cannot be lowered to 13"},
		{`g (double[2, 3] x) => (double[2, 3] y) { y = Relu(x) }`, 6, 13, "operator set 6 cannot be raised to 13"},
		{`g (double[2, 3] x) => (double[2, 3] y) { y = Relu(x) }`, 13, 99, "operator set 13 cannot be raised to 99"},
		{`g (double[2, 3] x, double[3] s, double[3] b, double[3] m, double[3] v) => (double[2, 3] y) { y = BatchNormalization<spatial = 0>(x, s, b, m, v) }`,
			7, 9,
			`node "BatchNormalization#0" (BatchNormalization) cannot be raised to operator set 9: its attribute spatial is 0`},
		{`g (double[2, 3] x, double[3] s, double[3] b, double[3] m, double[3] v) => (double[2, 3] y, double[3] w) { y, rm, rv, w, sv = BatchNormalization(x, s, b, m, v) }`,
			9, 15, "output 3, which is gone, is read"},
		{`g (double[1, 1, 4, 4] x, float[4] s) => (double[?, ?, ?, ?] y) { y = Resize(x, s) }`, 10, 11,
			"its scales are not known"},
		{`g (double[1, 1, 4, 4] x) => (double[1, 1, 8, 2] y) <float[4] s = {1, 1, 2, 0.5}> { y = Resize(x, s) }`, 10,
			13, "some of its axes grow and some shrink"},
		{`g (double[1, 1, 4, 4] x) => (double[1, 1, 8, 8] y) <float[0] r = {}, float[4] s = {1, 1, 2, 2}> { y = Resize<mode = "linear", coordinate_transformation_mode = "tf_half_pixel_for_nn">(x, r, s) }`,
			11, 13, "tf_half_pixel_for_nn are gone"},
	} {
		g := gradCase{Name: "refused", Graph: c.graph, Opset: c.from}
		_, err := autograd.Convert(g.parse(t), c.to)
		require.ErrorContains(t, err, c.want)
	}
}

// TestConvertKeeps: names of values, and what a raised model holds besides, stay; equal constants
// are shared.
func TestConvertKeeps(t *testing.T) {
	g := gradCase{Name: "names", Opset: 9,
		Graph: `g (double[1, 3, 1] x, double[1, 2, 1] converted_constant) => (double[3] y, double[2] z) {
		y = Squeeze<axes = [0, 2]>(x)  z = Squeeze<axes = [0, 2]>(converted_constant) }`}
	m := g.parse(t)
	m.IRVersion = 3
	says, err := autograd.Convert(m, 13)
	require.NoError(t, err)
	require.Equal(t, []string{"the operator set is raised from 9 to 13", "2 nodes Squeeze: axes become an input"}, says)
	require.Len(t, m.Graph.Initializers, 1)
	require.Equal(t, "converted_constant_1", m.Graph.ValueName(m.Graph.Initializers[0]))
	require.EqualValues(t, 7, m.IRVersion)
	require.Equal(t, "y", m.Graph.ValueName(m.Graph.Nodes[0].Outputs[0]))
}

// TestConvertForGradients: a rule that needs a newer operator set gets it.
func TestConvertForGradients(t *testing.T) {
	at := tensors{"i": ints([]int{3}, 4, 0, 4)}
	checkGradients(t, []gradCase{
		{Name: "embedding of an old set", Opset: 9, In: at,
			Graph: `g (double[5, 3] x, int64[3] i) => (double[3, 1, 3] y) { a = Gather(x, i)  b = Unsqueeze<axes = [1]>(a)  y = Pad<pads = [0, 0, 0, 0, 0, 0]>(b) }`},
	})
	m := (&gradCase{Name: "m", Opset: 9,
		Graph: `g (float[5, 3] x, int64[3] i) => (float[3, 3] y) { y = Gather(x, i) }`}).parse(t)
	j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}})
	require.NoError(t, err)
	require.True(t, j.Raised)
	require.EqualValues(t, 9, j.From)
	require.EqualValues(t, 16, j.To)
	require.Equal(t, "the operator set is raised from 9 to 16", j.Changes[0])
	require.EqualValues(t, 9, m.OpsetVersion(""), "the model itself is left alone")
}
