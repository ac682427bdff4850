package ort

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// stateCase plans the states of a graph whose states are w with w2 and, if it has them, m with m2.
func stateCase(t *testing.T, text string) (*graph.Graph, []StateBuffer) {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "case")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	var states []live.State
	for _, name := range []string{"w", "m"} {
		in, ok := m.Graph.Lookup(name)
		out, also := m.Graph.Lookup(name + "2")
		if ok && also {
			states = append(states, live.State{In: in, Out: out})
		}
	}
	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	return m.Graph, StateBuffers(m.Graph, states, sizes.Bytes)
}

// TestStateBuffers says of small steps where next values go, what the writers wait for, or why not.
func TestStateBuffers(t *testing.T) {
	const in = "g (float[4, 4] w, float[4, 4] x, float[4, 4] m) => (float[4, 4] w2"
	for _, c := range []struct{ name, text, want string }{
		{"the writer alone reads the old value", in + ") { w2 = Sub(w, x) }", "in place"},
		{"a reader leads to the writer", in + ") { a = Mul(w, x)  w2 = Sub(a, x) }", "in place"},
		{"another reader does not", in + ", float[4, 4] y) { a = Exp(x)  y = MatMul(w, x)  z = ReduceSum(y)  " +
			"w2 = Sub(w, a) }", "in place, a waits for z"},
		{"a result of the step", in + ", float[4, 4] y) { y = MatMul(w, x)  a = Exp(x)  w2 = Sub(w, a) }",
			"in place, a waits for y"},
		{"it may come later in the file", in + ", float[4, 4] y) { a = Exp(x)  w2 = Sub(w, a)  b = MatMul(w, x)  " +
			"y = Neg(b) }", "in place, a waits for b"},
		{"a view of the old value is read", in + ", float y) { f = Flatten(w)  a = Exp(f)  w2 = Sub(w, x)  " +
			"y = ReduceSum<keepdims = 0>(a) }", `node "Sub#2" (Sub) cannot be made to wait for node "Exp#1" (Exp)`},
		{"a product reads through a transpose", in + ", float[4, 4] y) { v = Transpose(w)  s = ReduceSum(v)  " +
			"a = Mul(s, x)  b = MatMul(v, x)  y = Mul(b, s)  w2 = Sub(w, a) }", "in place, a waits for b"},
		{"an input could be written too late", in + ", float[4, 4] y) { y = Exp(w)  w2 = Sub(w, x) }",
			`node "Sub#1" (Sub) cannot be made to wait for node "Exp#0" (Exp), which reads the old value`},
		{"a product of matrices does not write in place", in + ") { w2 = MatMul(w, x) }",
			`node "MatMul#0" (MatMul) reads the old value, and is not known to write over it`},
		{"nor does what may become one", in + ") { a = MatMul(x, x)  w2 = Add(w, a) }",
			`node "Add#1" (Add) reads the old value, and is not known to write over it`},
		{"a product of matrices of something else", in + ") { a = Mul(w, x)  w2 = MatMul(a, x) }", "in place"},
		{"a fused Gelu reads the old value to the end", in + ") <float[1] h = {0.5}, float[1] r = {1.41}, " +
			"float[1] one = {1}> " +
			"{ a = Div(w, r)  b = Erf(a)  c = Add(b, one)  d = Mul(w, c)  w2 = Mul(d, h) }",
			`node "Div#0" (Div) reads the old value, and may become one with node "Mul#4" (Mul)`},
		{"the copy may go", in + ", float[4, 4] y) { b = MatMul(w, x)  y = Neg(b)  a = Exp(x)  d = Sub(w, " +
			"a)  w2 = Identity(d) }",
			"in place, a waits for b"},
		{"what adds nothing may go", in + ") <float[1] zero = {0}> { w2 = Add(w, zero) }",
			"no node makes the next value"},
		{"the old value is returned", "g (float[4] w, float[4] x) => (float[4] w2, float[4] w) { w2 = Sub(w, x) }",
			"the old value is an output of the graph as well"},
		{"what one waits for, another need not", in + ", float[4, 4] m2, float[4, 4] y) { y = MatMul(w, m)  " +
			"a = Exp(x)  " +
			"w2 = Sub(w, a)  b = Exp(w2)  m2 = Sub(m, b) }", "in place, a waits for y; in place"},
		{"two states wait for no circle", in + ", float[4, 4] m2, float[4, 4] y) { a = Exp(x)  b = Neg(x) " +
			" m2 = Sub(m, a)  " +
			"w2 = Sub(w, b)  c = Mul(w, m2)  d = Mul(m, w2)  y = Add(c, d) }",
			`in place, b waits for c; node "Sub#2" (Sub) cannot be made to wait for node "Mul#5" (Mul)`},
	} {
		g, plan := stateCase(t, c.text)
		var parts []string
		for _, b := range plan {
			part := b.Why
			if b.InPlace {
				part = "in place"
				for _, v := range b.Sinks {
					part += fmt.Sprintf(", %s waits for %s", g.ValueName(b.Held), g.ValueName(v))
				}
			}
			parts = append(parts, part)
		}
		got := strings.Join(parts, "; ")
		require.True(t, strings.HasPrefix(got, c.want), "%s: %s", c.name, got)
		require.Equal(t, strings.Count(c.want, " waits "), strings.Count(got, " waits "), c.name)
	}
}

// TestStateOrders draws steps and holds every state that is written in place to the definition: in
// no order that operands and waiting allow does a node read the old value behind the writer.
func TestStateOrders(t *testing.T) {
	inPlace, waits := 0, 0
	for seed := range uint64(400) {
		g, plan := stateCase(t, randomStep(rand.New(rand.NewPCG(seed, 1))))
		after := make([][]graph.NodeID, len(g.Nodes)) // by node: those that it waits for
		for i := range g.Nodes {
			g.EachProducer(graph.NodeID(i), func(d graph.NodeID) { after[i] = append(after[i], d) })
		}
		for _, b := range plan {
			for _, v := range b.Sinks {
				after[b.Writer] = append(after[b.Writer], g.Values[v].Def)
				waits++
			}
		}
		require.False(t, circular(after), "seed %d", seed)
		for _, b := range plan {
			if !b.InPlace {
				require.Empty(t, b.Sinks)
				continue
			}
			inPlace++
			before := reach(after, b.Writer)
			for i, n := range g.Nodes {
				for _, v := range n.Inputs {
					require.True(t, v != b.In || before[i], "seed %d: node %d of\n%s", seed, i, g.Name)
				}
			}
		}
	}
	require.Greater(t, inPlace, 100)
	require.Greater(t, waits, 50)
}

// randomStep is the text of a step with two states.
func randomStep(r *rand.Rand) string {
	var b strings.Builder
	values := []string{"w", "m", "x"}
	pick := func() string { return values[r.IntN(len(values))] }
	for i := range 3 + r.IntN(6) {
		name := fmt.Sprintf("v%d", i)
		kind := []string{"Add", "Mul", "MatMul", "Sub"}[r.IntN(4)]
		fmt.Fprintf(&b, "  %s = %s(%s, %s)", name, kind, pick(), pick())
		values = append(values, name)
	}
	fmt.Fprintf(&b, "  w2 = Sub(%s, %s)  m2 = Add(%s, %s)  y = Mul(%s, w2)", pick(), pick(), pick(), pick(), pick())
	return "g (float[4, 4] w, float[4, 4] m, float[4, 4] x) => (float[4, 4] w2, float[4, 4] m2, float[4, 4] y) {" +
		b.String() + " }"
}

// reach marks what a node waits for, and the node itself.
func reach(after [][]graph.NodeID, from graph.NodeID) []bool {
	seen := make([]bool, len(after))
	var visit func(graph.NodeID)
	visit = func(id graph.NodeID) {
		if !seen[id] {
			seen[id] = true
			for _, d := range after[id] {
				visit(d)
			}
		}
	}
	visit(from)
	return seen
}

// circular reports whether a node waits for itself.
func circular(after [][]graph.NodeID) bool {
	for i := range after {
		for _, d := range after[i] {
			if reach(after, d)[i] {
				return true
			}
		}
	}
	return false
}

// TestBoundOutputs leaves bound outputs out of the arena, be they made by a copy that goes or not.
func TestBoundOutputs(t *testing.T) {
	const kib = 1024
	for _, nodes := range []string{
		"w2 = Mul(l, d)  f = Exp(w2)  e = Exp(f)  y = ReduceSum<keepdims = 0>(e)",
		"f = Exp(l)  e = Exp(f)  h = Mul(e, d)  w2 = Identity(h)  y = ReduceSum<keepdims = 0>(e)",
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17], metadata_props: ["memopt.boundary": `+
			`"{\"schema\":\"memopt.boundary/v1\",\"kind\":\"recorded\",\"loss\":\"y\",\"node\":\"n\",\"backward\":\"k\"}"]> `+
			`g (float[16, 16] w, float[16, 16] x) => (float[16, 16] w2, float y) { [n] d = Neg(x)  [k] l = Abs(w)  `+
			nodes+` }`, "case")
		require.NoError(t, err)
		_, err = op.Infer(m)
		require.NoError(t, err)
		out, _ := m.Graph.Lookup("w2")
		free, err := Simulate(m, nil)
		require.NoError(t, err)
		with, err := SimulateBound(m, nil, []graph.ValueID{out}, false)
		require.NoError(t, err)
		require.Equal(t, free.Live-kib, with.Live, nodes)
	}
}
