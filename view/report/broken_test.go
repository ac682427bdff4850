package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLongNamesBreak: a name of a million characters is broken into lines in one walk: every character is there once,
// and no line is wider than asked. Measuring the rest anew for each line would take an hour.
func TestLongNamesBreak(t *testing.T) {
	for _, part := range []string{"n", "漢", "layer_3/", "á"} {
		text := strings.Repeat(part, 1_000_000/len(part))
		lines := broken(text, 80)
		require.True(t, strings.Join(lines, "") == text)
		for _, line := range lines[:len(lines)-1] {
			require.LessOrEqual(t, displayWidth(line), 80)
			require.Greater(t, displayWidth(line), 70)
		}
	}
}
