package memopt_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// writers are the source files that write without package fileio: files that no user names, or that
// are made when memopt is built.
var writers = []string{
	"internal/fileio/", "bench/", "internal/test/mutants/",
	"internal/test/double/", "executor/cuda/kernels/compile/", "internal/simd/asm/",
	"cmd/memopt/internal/runcmd/observe.go", // a spool of its own, in the folder of temporary files
	"executor/ort/child_linux.go",           // tensors on their way between the two processes
	"executor/ort/process.go",               // likewise
	"executor/rss.go",                       // /proc/self/clear_refs
	"train/events/",                         // files of a job's folder that grow by whole records
}

// TestOneWayToWrite: every file that a user names is written through package fileio, so that its
// promises hold.
func TestOneWayToWrite(t *testing.T) {
	writes := regexp.MustCompile(`\bos\.(Create|CreateTemp|WriteFile|OpenFile|Rename|Link|Symlink|Truncate)\(`)
	used := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !writes.Match(data) {
			return err
		}
		at := slices.IndexFunc(writers, func(prefix string) bool {
			return strings.HasPrefix(filepath.ToSlash(path), prefix)
		})
		if at < 0 {
			t.Errorf("%s writes files by itself (%s): package internal/fileio does that", path, writes.Find(data))
			return nil
		}
		used[writers[at]] = true
		return nil
	}))
	for _, prefix := range writers {
		require.True(t, used[prefix], "%s writes nothing any more", prefix)
	}
}
