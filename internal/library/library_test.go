package library

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDoubt: what anybody can write, or replace, is doubtful, and what belongs to somebody else.
func TestDoubt(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test needs Linux, where permissions and owners are as it sets them: run it there")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	deep := filepath.Join(dir, "above", "folder")
	require.NoError(t, os.MkdirAll(deep, 0o755))
	file := filepath.Join(deep, "lib.so")
	require.NoError(t, os.WriteFile(file, nil, 0o755))
	link := filepath.Join(dir, "link.so")
	require.NoError(t, os.Symlink(file, link))
	both := []string{file, link}
	for _, path := range both {
		require.Empty(t, Doubt(path))
		require.Equal(t, both, Searched(append([]string{"relative/lib.so", "lib.so"}, both...)))
	}
	above := filepath.Dir(deep)
	for _, c := range []struct {
		path string
		mode os.FileMode
		why  string
	}{{file, 0o757, "any user can write to " + file}, {deep, 0o757, "any user can write to " + deep},
		{above, 0o777, "any user can write to " + above}, {deep, 0o777 | os.ModeSticky, ""}, {file, 0o775, ""}} {
		require.NoError(t, os.Chmod(c.path, c.mode))
		for _, path := range both {
			require.Equal(t, c.why, Writable(path))
			require.Equal(t, c.why, Doubt(path))
			require.Equal(t, c.why == "", len(Searched([]string{path})) == 1)
		}
		require.NoError(t, os.Chmod(c.path, 0o755))
	}
	hidden := filepath.Join(dir, "open", "link.so")
	require.NoError(t, os.Mkdir(filepath.Dir(hidden), 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(hidden), 0o777))
	require.NoError(t, os.Symlink(file, hidden))
	require.Equal(t, "any user can write to "+filepath.Dir(hidden), Doubt(hidden))
	require.Empty(t, Doubt("lib.so"), "the dynamic linker looks for bare names")
	require.Empty(t, Doubt(filepath.Join(dir, "missing.so")))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(deep, 12345, 0))
		require.Equal(t, deep+" belongs to user 12345", Doubt(file))
		require.NoError(t, os.Chown(file, 12345, 0))
		require.Equal(t, file+" belongs to user 12345", Doubt(file))
		require.Equal(t, both, Searched(both), "a container's user need not be the one of its files")
	}
}

// TestFile: the file of this program's own code.
func TestFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test needs Linux, which says in /proc what lies where: run it there")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	code := reflect.ValueOf(TestFile).Pointer()
	require.Equal(t, self, File(code))
	require.Empty(t, File(1))
	n := len(List())
	got := Note("test", "asked", 1)
	require.Equal(t, Opened{"test", "asked", ""}, got)
	require.Equal(t, self, Note("test", "asked", code).Path)
	Note("test", "asked", code)
	require.Len(t, List(), n+2)
	require.Equal(t, got, List()[n])
}

// TestRefusals: a file that was not taken is noted once, with the reason.
func TestRefusals(t *testing.T) {
	for range 2 {
		Refuse("a library", "liba.so", errors.New("too old"))
	}
	Refuse("a library", "libb.so", errors.New("not there"))
	require.Equal(t, []Refused{{"a library", "liba.so", "too old"}, {"a library", "libb.so", "not there"}}, Refusals())
}
