package memopt_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoldenFilesSayTheirCheck: a file of expected output that -rewrite can regenerate begins with
// how it was checked, so that whoever rewrites it knows how to judge a difference.
func TestGoldenFilesSayTheirCheck(t *testing.T) {
	found := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".txt" {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("\n----\n")) { // the form of datadriven
			found++
			require.True(t, bytes.HasPrefix(text, []byte("# Checked by ")),
				"%s: its first line does not say by what it was checked", path)
		}
		return err
	}))
	require.Greater(t, found, 20)
}
