package graph_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/internal/test/graphtest"
)

// FuzzParse checks that a text that parses prints as a text that parses to the same model
// and prints the same. Inlining it must not fail in other ways than by an error, and what it
// leaves must be valid.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"testdata/text.txt", "testdata/text_errors.txt", "testdata/inline.txt"} {
		for _, text := range inputs(f, path) {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		m, err := graph.ParseWith(src, "fuzz", graph.ParseOptions{Elided: true})
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		text := graph.Format(m, everything)
		back, err := graph.ParseWith(text, "again", graph.ParseOptions{Elided: true})
		require.NoError(t, err, text)
		require.NoError(t, graphtest.Equal(m, back), text)
		require.Equal(t, text, graph.Format(back, everything))
		if _, err := graph.InlineFunctions(m, nil); err == nil {
			require.NoError(t, graph.Verify(m), text)
		}
	})
}

// inputs returns the inputs of a data-driven file.
func inputs(tb testing.TB, path string) (list []string) {
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	text, input := "", false
	for _, line := range strings.Split(string(data), "\n") {
		switch {
		case line == "----":
			if input {
				list = append(list, text)
			}
			text, input = "", false
		case input:
			text += line + "\n"
		case len(line) > 6 && line[:6] == "format", line == "format", line == "inline":
			input = true
		}
	}
	require.NotEmpty(tb, list)
	return list
}
