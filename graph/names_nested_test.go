package graph_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestNested: a name within a path is both of them as long as that is short; however deep paths
// nest and however long names are, what comes out is bounded text.
func TestNested(t *testing.T) {
	require.Equal(t, "a/b/c", graph.Nested("a/", "b/c"))
	path, name := "", "if"
	for range 64 {
		name = graph.Nested(path, name)
		path = graph.Nested(path, name+"_grad/")
		require.LessOrEqual(t, len(path), 1024)
		require.True(t, strings.HasSuffix(path, "if_grad/"), "%s", path)
	}
	long := graph.Nested(strings.Repeat("ä", 1<<20)+"/", strings.Repeat("ö", 1<<20)+"/end")
	require.LessOrEqual(t, len(long), 1024)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasPrefix(long, "ää") && strings.HasSuffix(long, "end"))
	require.True(t, utf8.ValidString(graph.Nested("x/", strings.Repeat("ö", 1<<20))))
}
