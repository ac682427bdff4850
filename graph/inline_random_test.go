package graph_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestInlineRandom checks that inlining leaves what the outputs of random models mean.
func TestInlineRandom(t *testing.T) {
	inlined := 0
	for seed := range uint64(300) {
		w := &callWriter{rand.New(rand.NewPCG(seed, 22)), strings.Builder{}}
		text := w.model()
		m, err := graph.Parse(text, fmt.Sprintf("seed %d", seed))
		require.NoError(t, err, text)
		before := meaning(m)
		if _, err = graph.InlineFunctions(m, nil); err != nil {
			// The only fault that such models can have.
			require.ErrorContains(t, err, "an input that the call leaves out", "seed %d:\n%s", seed, text)
			continue
		}
		require.NoError(t, graph.Verify(m), "seed %d:\n%s", seed, text)
		require.Equal(t, before, meaning(m), "seed %d:\n%s", seed, text)
		require.Empty(t, m.Functions)
		inlined++
	}
	require.Greater(t, inlined, 200)
}

// callWriter writes models in which functions call functions of a higher number, in
// subgraphs too, with attributes passed on, and operands left out.
type callWriter struct {
	*rand.Rand
	b strings.Builder
}

const callFunctions = 5

func (w *callWriter) model() string {
	w.b.WriteString("<opset_import: [\"\": 17]> g (a, b) => (y) {\n")
	w.body([]string{"a", "b"}, 0, 2, false)
	w.b.WriteString("}\n")
	for i := 1; i <= callFunctions; i++ {
		fmt.Fprintf(&w.b, "<domain: \"l\", opset_import: [\"\": 17]> f%d <p, q = %d> (a, b) => (y, z) {\n", i, i)
		w.body([]string{"a", "b"}, i, 2, true)
		w.b.WriteString("z = Neg (y) }\n")
	}
	return w.b.String()
}

// body writes nodes, of which the last makes y, in function number at.
func (w *callWriter) body(names []string, at, depth int, inFunction bool) {
	for i := range 1 + w.IntN(3) {
		out := fmt.Sprintf("v%d_%d", depth, i)
		w.node(names, out, at, depth, inFunction)
		names = append(names[:len(names):len(names)], out)
	}
	fmt.Fprintf(&w.b, "y = Sum (%s)\n", strings.Join(names[len(names)-2:], ", "))
}

func (w *callWriter) operand(names []string) string {
	if w.IntN(6) == 0 {
		return `""`
	}
	return names[w.IntN(len(names))]
}

func (w *callWriter) node(names []string, out string, at, depth int, inFunction bool) {
	label := ""
	if w.IntN(2) == 0 {
		label = fmt.Sprintf("[n%d] ", w.IntN(3))
	}
	in := w.operand(names) + ", " + w.operand(names)
	attr := []string{"1", "2"}[w.IntN(2)]
	if inFunction && w.IntN(2) == 0 {
		attr = []string{"@p", "@q"}[w.IntN(2)]
	}
	switch k := w.IntN(4); {
	case k == 0 && at < callFunctions:
		second := []string{"", ", " + out + "z"}[w.IntN(2)]
		fmt.Fprintf(&w.b, "%s%s%s = l.f%d <p = %s> (%s)\n", label, out, second, at+1+w.IntN(callFunctions-at), attr, in)
	case k == 1 && depth > 0:
		fmt.Fprintf(&w.b, "%s%s = If <then_branch = t () => (y) {\n", label, out)
		w.body(names, at, depth-1, inFunction)
		fmt.Fprintf(&w.b, "}, k = %s> (%s)\n", attr, in)
	default:
		fmt.Fprintf(&w.b, "%s%s = Op <k = %s> (%s)\n", label, out, attr, in)
	}
}
