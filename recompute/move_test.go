package recompute

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

const moveText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[2, 8] x) => (float[16] y) <int64[1] flat = {16}, int64[2] four = {1, 4}> {
  a = Exp (x)
  f = Reshape (a, flat)
  b = Neg (f)
  wide = Tile (a, four)
  c = ReduceMax <keepdims = 0> (wide)
  d = Mul (f, c)
  e = Abs (d)
  g = Add (e, f)
  y = Sub (g, b)
}`

// moveModel parses moveText, and finds values and nodes by the name of a value.
func moveModel(t *testing.T) (m *graph.Model, value func(string) graph.ValueID, node func(string) graph.NodeID) {
	m, err := graph.Parse(moveText, "net")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	value = func(name string) graph.ValueID {
		v, ok := m.Graph.Lookup(name)
		require.True(t, ok, name)
		return v
	}
	return m, value, func(name string) graph.NodeID { return m.Graph.Values[value(name)].Def }
}

// TestMoveValues: a value whose view is read behind its stay, twice for one write.
func TestMoveValues(t *testing.T) {
	m, value, node := moveModel(t)
	out, err := MoveValues(m, graph.FileOrder(m.Graph), []Move{
		{Value: value("a"), Offload: node("b"), Free: node("c"), Reload: node("c"), Wait: node("d")},
		{Value: value("a"), Offload: graph.NoNode, Free: node("e"), Reload: node("e"), Wait: node("g")},
	})
	require.NoError(t, err)
	_, text, _ := strings.Cut(graph.Format(out.Model, graph.FormatOptions{}), "{16}")
	_, text, _ = strings.Cut(text, "{\n")
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			_, line, _ = strings.Cut(line, "] ") // the node's name
		}
		lines = append(lines, strings.TrimSuffix(line, "}"))
	}
	require.Equal(t, strings.TrimSpace(`
a = Exp (x)
f = Reshape (a, flat)
a_host = memopt.Offload (a)
b = Neg (f)
wide = Tile (a, four)
a_host_there = memopt.Wait (a_host, a)
a_reload = memopt.Reload (a_host_there)
c = ReduceMax <keepdims = 0> (wide)
a_reload_there = memopt.Wait (a_reload, a_host_there)
f_reload = Reshape (a_reload_there, flat)
d = Mul (f_reload, c)
a_reload_1 = memopt.Reload (a_host_there)
e = Abs (d)
a_reload_there_1 = memopt.Wait (a_reload_1, a_host_there)
f_reload_1 = Reshape (a_reload_there_1, flat)
g = Add (e, f_reload_1)
y = Sub (g, b)`), strings.TrimSpace(strings.Join(lines, "\n")))
	require.EqualValues(t, 1, out.Model.OpsetVersion(op.DomainMemopt))
	clones := 0
	for i, n := range out.Model.Graph.Nodes {
		if o := out.Origin[i]; o == graph.NoNode {
			require.NotEqual(t, op.NoTransfer, op.Of(n.Kind).Transfer)
		} else if require.Equal(t, m.Graph.Nodes[o].Op, n.Op); strings.Contains(n.Name, reloadSuffix) {
			clones++
		}
	}
	require.Equal(t, 2, clones)

	// The tile of 256 bytes does not lie beside a, nor do values made of d.
	peak := func(m *graph.Model) (int64, int64) {
		sizes, err := live.EvalSizes(m.Graph, nil)
		require.NoError(t, err)
		tl, err := live.Simulate(m.Graph, graph.FileOrder(m.Graph), sizes)
		require.NoError(t, err)
		if tl.Host == nil {
			return tl.Peak.Bytes, 0
		}
		return tl.Peak.Bytes, tl.Host.Peak.Bytes
	}
	bytes, host := peak(m)
	require.Equal(t, []int64{64 + 64 + 256 + 4, 0}, []int64{bytes, host}, "a, b, wide and c")
	late, err := MoveValues(m, graph.FileOrder(m.Graph), []Move{
		{Value: value("a"), Offload: node("b"), Free: node("c"), Reload: node("d"), Wait: node("d")}})
	require.NoError(t, err)
	bytes, host = peak(late.Model)
	require.Equal(t, []int64{64 + 64 + 256, 64}, []int64{bytes, host}, "a, b and wide while the tile is made")
}

// TestMoveErrors: moves that a graph and its order do not allow are refused by name.
func TestMoveErrors(t *testing.T) {
	m, value, node := moveModel(t)
	order := graph.FileOrder(m.Graph)
	stay := func(v, offload, free, reload, wait string) Move {
		return Move{Value: value(v), Offload: node(offload), Free: node(free), Reload: node(reload),
			Wait: node(wait)}
	}
	clean := stay("a", "b", "e", "e", "g")
	clean.Offload = graph.NoNode
	for _, c := range []struct {
		moves []Move
		want  string
	}{
		{[]Move{stay("a", "b", "b", "d", "d")}, `"a": node "Neg#2" reads it, or a view of it, while it is away`},
		{[]Move{stay("a", "c", "d", "d", "g")}, `"a": node "Mul#5" reads it, or a view of it`},
		{[]Move{stay("a", "d", "c", "d", "d")}, `"a": its steps are out of order before node "ReduceMax#4"`},
		{[]Move{stay("a", "a", "c", "d", "d")}, `"a": its steps are out of order before node "Exp#0"`},
		{[]Move{stay("x", "b", "c", "d", "d")}, `"x": it is an input or a weight`},
		{[]Move{clean}, `"a": it has no copy on the host`},
		{[]Move{stay("a", "b", "c", "d", "d"), stay("a", "e", "e", "e", "g")}, `it has a copy on the host already`},
		{[]Move{{Value: value("y")}}, `"y": it is an output of the graph`},
		{[]Move{{Value: value("a"), Offload: 99, Free: 99, Reload: 99, Wait: 99}}, `"a": there is no node 99`},
	} {
		_, err := MoveValues(m, order, c.moves)
		require.ErrorIs(t, err, ErrMove)
		require.ErrorContains(t, err, c.want)
	}
}
