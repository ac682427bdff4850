package graph_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/internal/test/graphtest"
)

// TestText runs testdata/text*.txt. "format" parses a model and prints it, after checking that
// the print parses to an equal model; its arguments are the fields of FormatOptions. An error is
// printed in place of the model.
func TestText(t *testing.T) {
	for _, path := range []string{"testdata/text.txt", "testdata/text_errors.txt"} {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			opts := graph.FormatOptions{Types: d.HasArg("types"), Extra: d.HasArg("extra")}
			d.MaybeScanArgs(t, "max", &opts.MaxElements)
			m, err := graph.ParseWith(d.Input, "test", graph.ParseOptions{Elided: d.HasArg("elided")})
			if err != nil {
				return err.Error() + "\n"
			}
			checkTextStable(t, d.Pos, m)
			return graph.Format(m, opts)
		})
	}
}

// checkTextStable requires of a model that may have elided contents what checkText requires.
func checkTextStable(t *testing.T, what string, m *graph.Model) {
	t.Helper()
	text := graph.Format(m, everything)
	back, err := graph.ParseWith(text, what, graph.ParseOptions{Elided: true})
	require.NoError(t, err, "%s\n%.4000s", what, text)
	require.NoError(t, graphtest.Equal(m, back), "%s\n%.4000s", what, text)
	require.Equal(t, text, graph.Format(back, everything), what)
}

// TestNesting holds the limits on depth, of graphs and of types.
func TestNesting(t *testing.T) {
	for _, c := range []struct {
		name string
		text func(n int) string
	}{
		{"graphs", func(n int) string {
			return strings.Repeat("g () => () { = If <b = ", n-1) + "g () => () {}" + strings.Repeat("> () }", n-1)
		}},
		{"types", func(n int) string {
			return "g (" + strings.Repeat("seq(", n-1) + "float" + strings.Repeat(")", n-1) + " x) => () {}"
		}},
	} {
		m, err := graph.Parse(c.text(63), c.name)
		require.NoError(t, err)
		checkText(t, c.name, m)
		for _, n := range []int{66, 100_000} {
			_, err = graph.Parse(c.text(n), c.name)
			require.ErrorContains(t, err, c.name+" are nested more than 64 deep")
		}
	}
}

// TestElided checks that contents that a text leaves out cannot be mistaken for others.
func TestElided(t *testing.T) {
	g := graph.New("g", nil)
	_, err := g.AddInitializer(graph.Int64Tensor("w", []int64{3}, 1, 2, 3))
	require.NoError(t, err)
	text := graph.Format(&graph.Model{Graph: g}, graph.FormatOptions{MaxElements: 2})
	require.Contains(t, text, "int64[3] w = {...}")
	_, err = graph.Parse(text, "test")
	require.EqualError(t, err,
		`test:3:16: the contents of tensor "w" are elided; print the model with all elements, or allow elided contents`)
	m, err := graph.ParseWith(text, "test", graph.ParseOptions{Elided: true})
	require.NoError(t, err)
	_, err = m.Graph.Values[m.Graph.Initializers[0]].Data.Int64s()
	require.ErrorIs(t, err, graph.ErrElided)
}
