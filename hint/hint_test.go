package hint

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNames: every option has a name of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for o := range NumOptions {
		require.NotEmpty(t, o.String(), "option %d", int(o))
		require.False(t, seen[o.String()], "two options are called %v", o)
		seen[o.String()] = true
	}
}

// TestWords: a text has the words of the program, in errors as in sentences, else those of the library.
func TestWords(t *testing.T) {
	text := func() string {
		return fmt.Errorf("%q is unknown: bind it with %v, %v lists all", "seq", Dims.With("seq=2"), Batch).Error()
	}
	require.Equal(t, `"seq" is unknown: bind it with Dims seq=2, Batch lists all`, text())
	Words = func(u Use) string { return fmt.Sprintf("<%s=%s>", names[u.Option], u.Value) }
	defer func() { Words = nil }()
	require.Equal(t, `"seq" is unknown: bind it with <Dims=seq=2>, <Batch=> lists all`, text())
}
