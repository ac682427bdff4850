package autograd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/symbolic"
)

// partCase is a graph of which some gradients are those of parts. Its bounds are named constants.
type partCase struct {
	name, inputs, body string
	with, without      []string // operators of the backward half
	near               bool     // a product adds up in another order: equal within rounding only
}

// The bounds that the cases share.
var partBounds = map[string][]int64{"o": {0}, "k": {2}, "m": {4}, "e": {9223372036854775807}, "z": {-1},
	"a": {1}, "l": {-1}}

var partCases = []partCase{
	{name: "halves, as rotary embeddings take them", inputs: "float[N, S, 8] x, float[8] c", with: []string{"Concat"},
		without: []string{"Pad"},
		body: "p = Slice(x, o, m, l)  q = Slice(x, m, e, l)  n = Neg(q)  r = Concat<axis = -1>(n, p)  d = Mul(x, " +
			"c)  y = Add(d, r)"},
	{name: "thirds", inputs: "float[N, 6] x", with: []string{"Concat"}, without: []string{"Pad"},
		body: "p = Slice(x, k, m, l)  q = Slice(x, m, e, l)  r = Slice(x, o, k, l)  t = Mul(p, q)  y = Mul(t, r)"},
	{name: "halves between other terms", inputs: "float[N, 8] x, float[8] c", without: []string{"ScatterND"},
		body: "t = Tanh(x)  p = Slice(x, o, m, l)  s = Sin(x)  q = Slice(x, m, e, l)  " +
			"u = Mul(t, s)  v = Concat<axis = 1>(q, p)  w = Mul(u, v)  y = Mul(w, c)"},
	{name: "parts that overlap", inputs: "float[N, 8] x", with: []string{"Pad"},
		body: "p = Slice(x, o, m, l)  q = Slice(x, k, e, l)  r = Concat<axis = 1>(p, q)  y = Mul(r, r)"},
	{name: "rows beside a sum", inputs: "float[S, 16] x", with: []string{"ScatterND"},
		body: "p = Slice(x, a, e, o)  q = Mul(p, p)  t = Tanh(x)  u = Slice(t, o, z, o)  y = Mul(u, q)"},
	{name: "a shift by one, as recurrences over tokens take it", inputs: "float[N, S, 4, 4] x",
		with: []string{"ScatterND"},
		body: "p = Slice(x, o, z, a)  q = Mul(p, p)  t = Tanh(x)  u = Slice(t, a, e, a)  " +
			"v = Slice(u, o, e, a)  y = Mul(v, q)"},
	{name: "places of a stack", inputs: "float[3, N, 5] x", with: []string{"Concat"}, without: []string{"Pad"},
		body: "p = Gather(x, i0)  q = Gather(x, i1)  r = Gather(x, i2)  s = Mul(p, q)  y = Mul(s, r)"},
	{name: "scores shifted by one", inputs: "float[N, S, 4] h, float[4, 16] w, float[16] b",
		near: true, with: []string{"Pad"},
		body: "s = MatMul(h, w)  t = Add(b, s)  u = Cast<to = 1>(t)  v = Slice(u, o, z, a)  y = Tanh(v)"},
	{name: "scores of the last places", inputs: "float[N, S, 4] h, float[4, 16] w", near: true, with: []string{"Pad"},
		body: "t = Tanh(h)  s = MatMul(t, w)  v = Slice(s, a, e, a)  y = Tanh(v)"},
	{name: "scores of places in the middle", inputs: "float[N, 6, 4] h, float[4, 16] w",
		near: true, with: []string{"Pad"},
		body: "t = Tanh(h)  s = MatMul(t, w)  v = Slice(s, k, m, a)  y = Tanh(v)"},
}

// model is the graph of a case, its bounds constants, or inputs, of which nothing is known before the
// run: the gradient of each part has zeros around it then, and is added.
func (c *partCase) model(t *testing.T, known bool) *graph.Model {
	inputs, inits := c.inputs, "int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {2}, int64[1] l1 = {-1}"
	for _, name := range []string{"o", "k", "m", "e", "z", "a", "l"} {
		if known || name == "l" || name == "a" || name == "o" { // axes are constants
			inits += fmt.Sprintf(", int64[1] %s = {%d}", name, partBounds[name][0])
		}
	}
	body := c.body
	if !known {
		for _, name := range []string{"k", "m", "e", "z"} {
			inputs += ", int64[1] " + name
		}
		// As bounds, 0 and 1 are inputs of other names.
		inputs += ", int64[1] o2, int64[1] a2, int64 j0, int64 j1, int64 j2"
		for _, r := range [][2]string{{", o, ", ", o2, "}, {", a, e", ", a2, e"}, {"i0", "j0"}, {"i1", "j1"},
			{"i2", "j2"}} {
			body = strings.ReplaceAll(body, r[0], r[1])
		}
	}
	text := fmt.Sprintf(
		`<ir_version: 8, opset_import: ["" : 17]> g (%s) => (float loss) <%s> { %s  loss = ReduceSum<keepdims = 0>(y) }`,
		inputs, inits, body)
	m, err := graph.Parse(text, c.name)
	require.NoError(t, err, text)
	inferred(t, m)
	return m
}

// TestParts: gradients of parts are joined, scattered, or handed to a product of fewer rows, and have
// the bits of the plain form, zeros around each part and then sums.
func TestParts(t *testing.T) {
	env := symbolic.Env{"N": 3, "S": 5}
	for _, c := range partCases {
		t.Run(c.name, func(t *testing.T) {
			var sides [2][]*executor.Tensor
			for side, known := range []bool{false, true} {
				m := c.model(t, known)
				var wrt []string
				for _, d := range m.Graph.Inputs {
					if d.Type.DType.IsFloat() {
						wrt = append(wrt, m.Graph.ValueName(d.Value))
					}
				}
				j, err := autograd.Differentiate(m, autograd.Options{Wrt: wrt})
				require.NoError(t, err)
				if known {
					c.requireOps(t, j)
				}
				sides[side] = newRunner(t, j.Model, env)(c.data(t, m, env))
			}
			for i, want := range sides[0] {
				got := sides[1][i]
				require.Equal(t, want.Shape, got.Shape)
				for k, x := range executor.Of[float32](want) {
					if c.near {
						require.InDelta(t, x, executor.Of[float32](got)[k], 1e-5)
					} else {
						require.Equal(t, x, executor.Of[float32](got)[k], "output %d, element %d", i, k) // 0 equals -0
					}
				}
			}
		})
	}
}

// data are the same floats for both forms, and the bounds where these are inputs.
func (c *partCase) data(t *testing.T, m *graph.Model, env symbolic.Env) tensors {
	filler, in := dataset.NewFiller(m.Graph, env, 1), tensors{}
	for _, d := range m.Graph.Inputs {
		name := m.Graph.ValueName(d.Value)
		switch {
		case d.Type.DType.IsFloat():
			x, err := filler.Fill(d.Value)
			require.NoError(t, err)
			in[name] = x
		case name[0] == 'j':
			in[name] = ints([]int{}, int64(name[1]-'0'))
		default:
			in[name] = ints([]int{1}, partBounds[name[:1]]...)
		}
	}
	return in
}

func (c *partCase) requireOps(t *testing.T, j *autograd.Joint) {
	var ops []string
	for _, n := range j.Model.Graph.Nodes[j.Backward:] {
		ops = append(ops, n.Op)
	}
	for _, op := range c.with {
		require.Contains(t, ops, op)
	}
	for _, op := range c.without {
		require.False(t, slices.Contains(ops, op), "%s in %v", op, ops)
	}
}

// TestShiftedScores: where scores are shifted by one, nothing as large as them is made beside them and
// their gradient.
func TestShiftedScores(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
		g (float[N, S, 8] h, int64[N, S] labels, float[8, 1000] w) => (float loss, float[N, S, 1000] scores) <
			int64[1] o = {0}, int64[1] a = {1}, int64[1] z = {-1}, int64[1] e = {9223372036854775807}, int64[2] rows = {-1, 1000}, int64[1] flat = {-1}> {
		x = Tanh(h)  scores = MatMul(x, w)  s = Slice(scores, o, z, a)  t = Slice(labels, a, e, a)
		u = Reshape(s, rows)  v = Reshape(t, flat)  loss = SoftmaxCrossEntropyLoss(u, v) }`, "shifted")
	require.NoError(t, err)
	inferred(t, m)
	j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"h", "w"}})
	require.NoError(t, err)
	timeline := simulated(t, j.Model, symbolic.Env{"N": 4, "S": 50})
	const scores = 4 * 4 * 50 * 1000
	require.Less(t, timeline.Peak.Bytes, int64(scores*5/2), "at node %q", j.Model.Graph.NodeLabel(timeline.Peak.Node))
}
