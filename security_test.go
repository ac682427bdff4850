package memopt_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPromisesAreTested: the tests that docs/security.md names exist, and each promise has one.
func TestPromisesAreTested(t *testing.T) {
	have := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if filepath.Ext(path) == ".txtar" {
			have[filepath.Base(path)] = true
		}
		if strings.HasSuffix(path, "_test.go") {
			data, err := os.ReadFile(path)
			for _, m := range declared.FindAllSubmatch(data, -1) {
				have[string(m[1])] = true
			}
			return err
		}
		return nil
	}))
	page, err := os.ReadFile("docs/security.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "| promise |")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+|\\w+\\.txtar)`")
	rows := 0
	for _, row := range strings.Split(table, "\n")[2:] {
		tests := named.FindAllStringSubmatch(row, -1)
		require.NotEmpty(t, tests, row)
		for _, m := range tests {
			require.True(t, have[m[1]], "%s: there is no such test\n%s", m[1], row)
		}
		rows++
	}
	require.GreaterOrEqual(t, rows, 10)
}
