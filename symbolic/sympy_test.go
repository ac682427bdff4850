package symbolic_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"memopt/symbolic"

	"github.com/stretchr/testify/require"
)

// String and FloatString spell and order as sympy does. The header of testdata/sympy.txt names
// the sympy version and the script that made it.
func TestPrintsAsSympy(t *testing.T) {
	data, err := os.ReadFile("testdata/sympy.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	require.True(t, strings.HasPrefix(lines[0], "# sympy "), "the header names the version")
	require.Greater(t, len(lines), 300)
	for i, line := range lines[1:] {
		in, want, ok := strings.Cut(line, " => ")
		require.True(t, ok, line)
		text, scale, isFloat := strings.Cut(in, " @ ")
		e, err := symbolic.Parse(text)
		require.NoError(t, err)
		got := e.String()
		if isFloat {
			var num, den int64
			_, err := fmt.Sscanf(scale, "%d/%d", &num, &den)
			require.NoError(t, err)
			got = e.FloatString(num, den)
		}
		if got != want {
			t.Errorf("testdata/sympy.txt:%d: %s\n got %s\nwant %s", i+2, in, got, want)
		}
	}
}
