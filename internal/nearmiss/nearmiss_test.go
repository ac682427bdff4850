package nearmiss

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	names := []string{"budget", "nodes", strings.Repeat("n", 2000)}
	require.Equal(t, "budget", Find("budgte", names))
	require.Empty(t, Find("weight", names))
	require.Empty(t, Find(strings.Repeat("n", 2001), names), "long names are not compared")
	require.Equal(t, `; did you mean "nodes"?`, Question("node", names))
	require.Empty(t, Question("weight", names))
}
