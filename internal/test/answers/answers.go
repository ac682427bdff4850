// Package answers holds tests to answers that are kept in a file. They are for searches and reports:
// whether an answer is right has tests of its own; a change that makes a search find other answers, or
// do other work for them, and one of a report's text, shows in the difference of the file.
package answers

import (
	"crypto/sha256"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/internal/fileio"
)

// Hold compares lines with those of a file. With UPDATE_ANSWERS in the environment it writes the file.
func Hold(t *testing.T, path, lines string) {
	t.Helper()
	if os.Getenv("UPDATE_ANSWERS") != "" {
		require.NoError(t, fileio.WriteFile(path, []byte(lines)))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), lines, "answers have changed; UPDATE_ANSWERS=1 writes the new ones to %s", path)
}

// Sum is a short hash of values that are too long for a line.
func Sum(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		fmt.Fprintf(h, "%v\n", v)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}
