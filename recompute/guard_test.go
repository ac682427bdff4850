package recompute_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

// guardCase rewrites a step whose node "loss" ends the forward half and whose node "d" begins the
// other: the nodes again, in order and separated by blanks, run again before the node before.
func guardCase(t *testing.T, text, again, before string, opts recompute.Options) *recompute.Rewritten {
	t.Helper()
	m, err := graph.Parse(text, "step")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	node := map[string]graph.NodeID{}
	for i, n := range m.Graph.Nodes {
		node[n.Name] = graph.NodeID(i)
	}
	var placements []recompute.Placement
	for i, name := range strings.Fields(again) {
		id, ok := node[name]
		require.True(t, ok, name)
		placements = append(placements,
			recompute.Placement{Value: m.Graph.Nodes[id].Outputs[0], Nodes: []graph.NodeID{id}, Before: node[before],
				Copy: strings.Count(strings.Join(strings.Fields(again)[:i+1], " ")+" ", name+" ")})
	}
	r, err := recompute.Apply(m, live.Boundary{Kind: live.RecordedBoundary, Node: node["loss"], Backward: node["d"]},
		graph.FileOrder(m.Graph), placements, opts)
	require.NoError(t, err)
	_, err = op.Infer(r.Model)
	require.NoError(t, err)
	return r
}

// added lists the nodes of a rewritten graph that are no nodes of the old one, and those that read
// them.
func added(r *recompute.Rewritten) string {
	var b strings.Builder
	seen := map[graph.NodeID]bool{}
	g := r.Model.Graph
	for i, line := range strings.SplitAfter(strings.TrimSuffix(printNodes(g), "\n"), "\n") {
		from := r.Origin[i]
		if from == graph.NoNode || seen[from] || strings.Contains(line, "_guard") {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
		if from != graph.NoNode {
			seen[from] = true
		}
	}
	return b.String()
}

const dropoutStep = `<ir_version: %d, opset_import: ["" : %d]>
step (float[N, 8] x, float[8, 8] w) => (float loss, float[8, 8] gw)
<%s>
{
  [f] a = MatMul (x, w)
  [act] r = Tanh (a)
  [drop] y, k = Dropout <seed = 3> (r%s)
  [out] b = MatMul (y, w)
  [loss] loss = ReduceMean <keepdims = 0> (b)
  [d] d = Mul (b, b)
  [dr] dr = Where (k, d, r)
  [dw] gw = Gemm <transA = 1> (x, dr)
}`

// TestGuardDropout: where the mask is made again, the original's has lost its reader, and stock
// ONNX Runtime would take the original out.
func TestGuardDropout(t *testing.T) {
	const constants, operands = "float ratio = {0.5}, bool yes = {1}", ", ratio, yes"
	clone := "drop_recompute: y_recompute, k_recompute = Dropout seed=3(r, ratio, yes)\n"
	views := "x_guard_size: x_guard_size = Size(x)\nratio_guard_zeros: ratio_guard_zeros = Mul(x_guard_size, " +
		"memopt_anchor_rank_0)\n" +
		"ratio_guard: ratio_guard = Reshape(ratio, ratio_guard_zeros)\nyes_guard: yes_guard = Reshape(yes, " +
		"ratio_guard_zeros)\n"
	for _, c := range []struct {
		name                string
		ir, opset           int
		constants, operands string
		again               string
		want                string
	}{
		{"the original", 8, 17, constants, operands, "drop",
			views + "drop: y, k = Dropout seed=3(r, ratio_guard, yes_guard)\n" + clone},
		{"nothing runs again", 8, 17, constants, operands, "", ""},
		{"something else runs again", 8, 17, constants, operands, "act", "act_recompute: r_recompute = Tanh(a)\n"},
		{"no ratio", 8, 17, "bool yes = {1}", ", , yes", "drop", "x_guard_size: x_guard_size = Size(x)\n" +
			"memopt_guard_ratio_guard_zeros: memopt_guard_ratio_guard_zeros = " +
			"Mul(x_guard_size, memopt_anchor_rank_0)\n" +
			"memopt_guard_ratio_guard: memopt_guard_ratio_guard = Reshape(memopt_guard_ratio, " +
			"memopt_guard_ratio_guard_zeros)\n" +
			"yes_guard: yes_guard = Reshape(yes, memopt_guard_ratio_guard_zeros)\n" +
			"drop: y, k = Dropout seed=3(r, memopt_guard_ratio_guard, yes_guard)\ndrop_recompute: y_recompute, " +
			"k_recompute = Dropout seed=3(r, , yes)\n"},
		{"a ratio of 0", 8, 17, "float ratio = {0.0}, bool yes = {1}", operands, "drop", clone},
		{"no training", 8, 17, "float ratio = {0.5}, bool yes = {0}", operands, "drop", clone},
		{"no training mode", 8, 17, "float ratio = {0.5}", ", ratio", "drop",
			"drop_recompute: y_recompute, k_recompute = Dropout seed=3(r, ratio)\n"},
		{"dims of a constant", 8, 17, "float[1] ratio = {0.5}, bool yes = {1}", operands, "drop",
			strings.NewReplacer("ratio_guard_zeros: ratio_guard_zeros = Mul(x_guard_size, memopt_anchor_rank_0)",
				"ratio_guard_zeros: ratio_guard_zeros = Mul(x_guard_size, memopt_anchor_rank_1)",
				"yes_guard: yes_guard = Reshape(yes, ratio_guard_zeros)",
				"yes_guard_zeros: yes_guard_zeros = Mul(x_guard_size, memopt_anchor_rank_0)\nyes_guard: yes_guard = "+
					"Reshape(yes, yes_guard_zeros)").Replace(views) +
				"drop: y, k = Dropout seed=3(r, ratio_guard, yes_guard)\n" + clone},
	} {
		r := guardCase(t, fmt.Sprintf(dropoutStep, c.ir, c.opset, c.constants, c.operands), c.again, "dr",
			recompute.Options{Guard: true})
		require.Equal(t, c.want, added(r), c.name)
		require.Equal(t, strings.Count(c.want, "_guard_size ")+strings.Count(c.want, "_zeros =")+
			strings.Count(c.want, " = Reshape("), r.GuardNodes, c.name)
		require.Zero(t, r.AnchorNodes, c.name)
		require.Empty(t, ortsim.LostDropouts(r.Model.Graph), c.name)
	}
	bare := guardCase(t, fmt.Sprintf(dropoutStep, 8, 17, constants, operands), "drop", "dr", recompute.Options{})
	require.Equal(t, clone, added(bare))
	require.Len(t, ortsim.LostDropouts(bare.Model.Graph), 1)
}

// TestGuardClones: of two clones, the first is read for its data only. Guards stand in the forward
// half, whose end is recorded as before.
func TestGuardClones(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(dropoutStep, 8, 17, "float ratio = {0.5}, bool yes = {1}", ", ratio, yes"),
		"[dr]", "[dy] dy = Mul (y, d)\n  [dz] dz = Where (k, dy, d)\n  [dr]", 1)
	m, err := graph.Parse(text, "step")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	y, drop := m.Graph.Nodes[2].Outputs[0], graph.NodeID(2)
	r, err := recompute.Apply(m, live.Boundary{Kind: live.RecordedBoundary, Node: 4, Backward: 5},
		graph.FileOrder(m.Graph), []recompute.Placement{
			{Value: y, Nodes: []graph.NodeID{drop}, Before: 6, Copy: 1},
			{Value: y, Nodes: []graph.NodeID{drop}, Before: 7, Copy: 2}}, recompute.Options{
			Guard: true,
		})
	require.NoError(t, err)
	require.Contains(t, added(r),
		"drop_recompute: y_recompute, k_recompute = Dropout seed=3(r, ratio_guard, yes_guard)\ndrop_recompute_2: "+
			"y_recompute_2, k_recompute_2 = Dropout seed=3(r, ratio, yes)\n")
	require.Equal(t, "loss", r.Model.Graph.Nodes[r.Boundary.Node].Name)
	require.Equal(t, "d", r.Model.Graph.Nodes[r.Boundary.Backward].Name)
	require.Equal(t, 4, r.GuardNodes)
}

// TestGuardYield leaves graphs alone that stock ONNX Runtime does not run.
func TestGuardYield(t *testing.T) {
	m, err := graph.Parse(fmt.Sprintf(dropoutStep, 8, 17, "float ratio = {0.5}, bool yes = {1}", ", ratio, yes"),
		"step")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	r, err := recompute.Apply(m, live.Boundary{Kind: live.YieldBoundary, Node: 4, Backward: 5},
		graph.FileOrder(m.Graph),
		[]recompute.Placement{{Value: m.Graph.Nodes[2].Outputs[0], Nodes: []graph.NodeID{2}, Before: 6, Copy: 1}},
		recompute.Options{Guard: true})
	require.NoError(t, err)
	require.Zero(t, r.GuardNodes)
}

const normStep = `<ir_version: %d, opset_import: ["" : 17]>
step (float[N, 8] x, %[2]s[8] given) => (float loss, %[2]s[8] mean_after, float[N, 8] g)
<float[8] scale = {1,2,3,4,5,6,7,8}, %[2]s[8] var = {1,2,3,4,5,6,7,8}>
{
  [f] a = Tanh (x)
  [norm] y, m, v = BatchNormalization <training_mode = 1> (a, scale, scale, given, var)
  [loss] loss = ReduceMean <keepdims = 0> (y)
  [d] d = Mul (x, x)
  [mean] mean_after = Identity (m)
  [g] g = Mul (d, y)
}`

// TestGuardStatistics: clones of a norm are given running statistics of their own, the same for
// all, and nothing reads those that they make.
func TestGuardStatistics(t *testing.T) {
	r := guardCase(t, fmt.Sprintf(normStep, 8, "float"), "norm norm", "mean", recompute.Options{Guard: true})
	require.Equal(t, "given_guard: given_guard = Add(given, memopt_guard_offset)\nvar_guard: var_guard = Add(var, "+
		"memopt_guard_offset)\n"+
		"norm_recompute: y_recompute, m_recompute, v_recompute = BatchNormalization(a, scale, scale, given_guard, "+
		"var_guard)\n"+
		"norm_recompute_2: y_recompute_2, m_recompute_2, v_recompute_2 = BatchNormalization(a, scale, scale, "+
		"given_guard, var_guard)\n", added(r))
	all := printNodes(r.Model.Graph)
	require.Contains(t, all, "mean: mean_after = Identity(m)\n")
	require.Contains(t, all, "norm: y, m, v = BatchNormalization(a, scale, scale, given, var)\n")
	require.Contains(t, all, "g: g = Mul(d, y_recompute_2)\n")
	r = guardCase(t, fmt.Sprintf(normStep, 8, "double"), "norm", "mean", recompute.Options{Guard: true})
	require.Equal(t, "given_guard_offset: given_guard_offset = Cast(memopt_guard_offset)\ngiven_guard: given_guard "+
		"= Add(given, given_guard_offset)\n"+
		"var_guard_offset: var_guard_offset = Cast(memopt_guard_offset)\nvar_guard: var_guard = Add(var, "+
		"var_guard_offset)\n"+
		"norm_recompute: y_recompute, m_recompute, v_recompute = BatchNormalization(a, scale, scale, given_guard, "+
		"var_guard)\n", added(r))
	bare := guardCase(t, fmt.Sprintf(normStep, 8, "float"), "norm", "mean", recompute.Options{})
	require.Contains(t, printNodes(bare.Model.Graph), "mean: mean_after = Identity(m_recompute)\n")
}

const geluStep = `<ir_version: 8, opset_import: ["" : 17]>
step (float[N, 8] x) => (float loss, float[N, 8] g)
<float half = {0.5}, float one = {1.0}>
{
  [a] a = Abs (x)
  [half] h = Mul (%s)
  [tanh] t = Tanh (a)
  [sum] s = Add (%s)
  [gelu] y = Mul (%s)
  [loss] loss = ReduceMean <keepdims = 0> (y)
  [d] d = Mul (x, x)
  [e] e = Mul (d, h)
  [g] g = Mul (e, s)
}`

// TestGuardGelu: once the sum has one reader, stock ONNX Runtime makes one node of the pattern,
// although the half has two.
func TestGuardGelu(t *testing.T) {
	views := "x_guard_size: x_guard_size = Size(x)\nhalf_guard_zeros: half_guard_zeros = Mul(x_guard_size, " +
		"memopt_anchor_rank_0)\nhalf_guard: half_guard = Reshape(half, half_guard_zeros)\n"
	for _, operands := range [][]any{{"a, half", "t, one", "h, s"}, {"half, a", "one, t", "s, h"}} {
		text := fmt.Sprintf(geluStep, operands...)
		want := strings.Replace(operands[0].(string), "half", "half_guard", 1)
		sum := "sum_recompute: s_recompute = Add(" + strings.Replace(operands[1].(string), "t",
			"t_recompute", 1) + ")\n"
		guard := recompute.Options{Guard: true}
		require.Equal(t, views+"half: h = Mul("+want+")\ntanh_recompute: t_recompute = Tanh(a)\n"+sum,
			added(guardCase(t, text, "tanh sum", "d", guard)))
		require.NotContains(t, added(guardCase(t, text, "tanh sum", "d", recompute.Options{})), "_guard")
		require.Empty(t, added(guardCase(t, text, "", "d", guard)), "the sum has two readers")
		require.NotContains(t, added(guardCase(t, text, "sum", "d", guard)), "_guard", "the tangent has two readers")
		require.NotContains(t, added(guardCase(t, text, "half tanh sum", "d", guard)), "_guard",
			"each half has one reader")
		again := strings.Replace(text, "[g] g = Mul (e, s)", "[z] z = Mul(h, s)  [g] g = Mul (e, z)", 1)
		require.Contains(t, added(guardCase(t, again, "half tanh sum", "d", guard)),
			views+"half_recompute: h_recompute = Mul("+want+")\n")
		for from, to := range map[string]string{
			"<float half": "<float unused", "y = Mul": "y = Div", "h = Mul": "h = Div", "s = Add": "s = Sub",
			"t = Tanh": "t = Erf",
		} {
			other := strings.Replace(text, from, to, 1)
			if strings.HasPrefix(from, "<") {
				other = strings.Replace(other, "x) =>", "x, float half) =>", 1)
			}
			require.NotContains(t, added(guardCase(t, other, "tanh sum", "d", guard)), "_guard", to)
		}
	}
}

// TestGuardWithoutInputs: the view waits for another operand where the graph is given nothing.
func TestGuardWithoutInputs(t *testing.T) {
	text := `<ir_version: 3, opset_import: ["" : 17]>
step () => (float loss, float[2] g)
{
  [x] x = RandomNormal <shape = [2], seed = 1.0> ()
  [ratio] ratio = Constant <value = float {0.5}> ()
  [yes] yes = Constant <value = bool {1}> ()
  [drop] y, k = Dropout <seed = 3> (x, ratio, yes)
  [loss] loss = ReduceMean <keepdims = 0> (y)
  [d] d = Mul (x, x)
  [g] g = Where (k, d, x)
}`
	r := guardCase(t, text, "drop", "d", recompute.Options{Guard: true})
	require.Equal(t, "x_guard_size: x_guard_size = Size(x)\nmemopt_anchor_rank_0: memopt_anchor_rank_0 = "+
		"Constant()\nratio_guard_zeros: ratio_guard_zeros = Mul(x_guard_size, memopt_anchor_rank_0)\n"+
		"ratio_guard: ratio_guard = Reshape(ratio, ratio_guard_zeros)\nx_guard_size_2: x_guard_size_2 = "+
		"Size(x)\nyes_guard_zeros: yes_guard_zeros = Mul(x_guard_size_2, memopt_anchor_rank_0)\n"+
		"yes_guard: yes_guard = Reshape(yes, yes_guard_zeros)\ndrop: y, k = Dropout seed=3(x, ratio_guard, "+
		"yes_guard)\ndrop_recompute: y_recompute, k_recompute = Dropout seed=3(x, ratio, yes)\n", added(r))
}

// TestEliminated has what ONNX Runtime 1.30 does with Dropout nodes from the basic level on,
// whatever they drop.
func TestEliminated(t *testing.T) {
	for _, c := range []struct {
		text            string
		eliminated, now bool
	}{
		{"a = Abs(x)  b, k = Dropout(a, ratio, yes)  y = Neg(b)", true, true},
		{"a = Abs(x)  b = Dropout(a, ratio, yes)  y = Neg(b)", true, true},
		{"a = Abs(x)  b = Dropout(a, , yes)  y = Neg(b)", true, true},
		{"a = Abs(x)  b = Dropout(a, ratio, t)  y = Neg(b)", true, true},
		{"a = Abs(x)  b = Dropout(a)  y = Neg(b)", true, false},
		{"a = Abs(x)  b = Dropout(a, ratio, no)  y = Neg(b)", true, false},
		{"a = Abs(x)  b = Dropout(a, zero, yes)  y = Neg(b)", true, false},
		// No input that a node makes.
		{"b = Dropout(x, ratio, yes)  y = Neg(b)", false, false},
		// Nor where copies are gone.
		{"a = Identity(x)  c = Identity(a)  b = Dropout(c, ratio, yes)  y = Neg(b)", false, false},
		{"a = Abs(x)  c = Identity(a)  b = Dropout(c, ratio, yes)  y = Neg(b)", true, true},
		{"a = Abs(x)  y = Dropout(a, ratio, yes)", false, false},                       // the result is returned
		{"a = Abs(x)  n = Not(t)  b = Dropout(a, ratio, n)  y = Neg(b)", false, false}, // two inputs that nodes make
		{"a = Abs(x)  b, k = Dropout(a, ratio, yes)  y = Where(k, b, a)", false, false},
	} {
		m, err := graph.Parse(
			`<ir_version: 8, opset_import: ["" : 17]> g (float[4] x, bool t) => (float[4] y) <float ratio = {0.5}, float zero = {0.0}, bool yes = {1}, bool no = {0}> {`+c.text+"}", "g")
		require.NoError(t, err, c.text)
		_, err = op.Infer(m)
		require.NoError(t, err, c.text)
		found := false
		for i, n := range m.Graph.Nodes {
			if n.Kind == op.Dropout {
				found = ortsim.Eliminated(m.Graph)[i]
			} else {
				require.False(t, ortsim.Eliminated(m.Graph)[i])
			}
		}
		require.Equal(t, c.eliminated, found, c.text)
		require.Equal(t, c.now, len(ortsim.LostDropouts(m.Graph)) > 0, c.text)
	}
}

// TestSeed gives all random nodes the seeds that Apply would give them, and leaves the model alone.
func TestSeed(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[4] x, bool t) => (float[4] y) {
  a, k = Dropout (x, , t)  b = RandomNormalLike (a)  c, l = Dropout <seed = 5> (b, , t)  y = Abs (c) }`, "g")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	out := recompute.Seed(m, 7)
	require.Nil(t, m.Graph.Nodes[0].Attr("seed"))
	require.Equal(t, int64('a')+7, out.Graph.Nodes[0].Attr("seed").Value)
	require.Equal(t, float32('b')+7, out.Graph.Nodes[1].Attr("seed").Value)
	require.Equal(t, int64(5), out.Graph.Nodes[2].Attr("seed").Value)
	require.Nil(t, out.Graph.Nodes[3].Attr("seed"))
	require.Same(t, out, recompute.Seed(out, 8), "nothing lacks a seed")
}
