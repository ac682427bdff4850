//go:build unix

package fileio

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// pair is a pair of which Main says what it is and where its data is; size is that of the data, at
// least.
func pair(main, text string, size int) *Pair {
	return &Pair{Main: main, Data: main + ".data",
		WriteMain: func(w io.Writer, data string) error {
			_, err := fmt.Fprintf(w, "%s %s", text, data)
			return err
		},
		WriteData: func(w io.Writer) error {
			_, err := w.Write(append([]byte(text), bytes.Repeat([]byte("."), max(size-len(text), 0))...))
			return err
		}}
}

// loads returns what the pair is; "" where there is none. Main beside data that is not its own
// fails the test.
func loads(t *testing.T, main string) string {
	t.Helper()
	text, err := os.ReadFile(main)
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	what, name, ok := strings.Cut(string(text), " ")
	require.True(t, ok, "%s", text)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(main), name))
	require.NoError(t, err)
	require.Equal(t, what, string(data))
	return what
}

// copyFolder copies a folder as it is now, which is what a kill would leave.
func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	for name, text := range contents(t, from) {
		write(t, to, name, text)
	}
	return to
}

// before are folders in which a pair is written, and what is there.
var before = []struct {
	files map[string]string
	old   string
}{
	{map[string]string{}, ""},
	{map[string]string{"m": "old m.data", "m.data": "old"}, "old"},
	{map[string]string{"m.data": "another"}, ""},
	{map[string]string{"m": "old elsewhere", "elsewhere": "old"}, "old"},
	// After a kill.
	{map[string]string{"m": "old m.0123456789abcdef.data", "m.0123456789abcdef.data": "old", "m.data": "older"}, "old"},
}

// TestPairSurvives: whatever step a process dies at, there is the old pair or the new one; in the
// end the new one has the names that it would have had alone, and nothing else is left.
func TestPairSurvives(t *testing.T) {
	for _, c := range before {
		dir := t.TempDir()
		for name, text := range c.files {
			write(t, dir, name, text)
		}
		main := filepath.Join(dir, "m")
		var steps []string
		seen := map[string]int{}
		end := Observe(func(op, path string) {
			steps = append(steps, op)
			seen[loads(t, filepath.Join(copyFolder(t, dir), "m"))]++
		})
		require.NoError(t, pair(main, "new", 0).Write())
		end()
		require.Equal(t, "new", loads(t, main))
		require.Positive(t, seen[c.old], "%v", steps)
		for what := range seen {
			require.Contains(t, []string{c.old, "new"}, what)
		}
		want := map[string]string{"m": "new m.data", "m.data": "new"}
		for name, text := range c.files {
			if want[name] == "" {
				want[name] = text
			}
		}
		require.Equal(t, want, contents(t, dir))
	}
}

// TestPairSurvivesKills does the same with processes that are killed.
func TestPairSurvivesKills(t *testing.T) {
	if at, err := strconv.Atoi(os.Getenv("MEMOPT_TEST_KILL_AT")); err == nil {
		step := 0
		Observe(func(string, string) {
			if step++; step == at {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		require.NoError(t, pair(os.Getenv("MEMOPT_TEST_OUT"), "new", 0).Write())
		return
	}
	killed := map[string]int{}
	for at := 1; ; at++ {
		dir := t.TempDir()
		for name, text := range before[1].files {
			write(t, dir, name, text)
		}
		main := filepath.Join(dir, "m")
		cmd := exec.Command(os.Args[0], "-test.run=^TestPairSurvivesKills$")
		cmd.Env = append(os.Environ(), fmt.Sprint("MEMOPT_TEST_KILL_AT=", at), "MEMOPT_TEST_OUT="+main)
		text, err := cmd.CombinedOutput()
		what := loads(t, main)
		if err == nil {
			require.Equal(t, "new", what)
			break
		}
		require.ErrorContains(t, err, "killed", "%s", text)
		killed[what]++
		// What is left keeps nobody from writing anew.
		require.NoError(t, pair(main, "newer", 0).Write())
		require.Equal(t, "newer", loads(t, main))
	}
	require.Greater(t, killed["old"], 5)
	require.Greater(t, killed["new"], 5)
}

// TestPairIsWhole: a fault at any point leaves the old pair, and nothing else, up to the rename
// that makes the new one; then the new one.
func TestPairIsWhole(t *testing.T) {
	for _, c := range before {
		for _, fault := range []string{"data", "model"} {
			dir := t.TempDir()
			for name, text := range c.files {
				write(t, dir, name, text)
			}
			p := pair(filepath.Join(dir, "m"), "new", 0)
			broken := func(io.Writer) error { return syscall.EIO }
			if fault == "data" {
				p.WriteData = broken
			} else {
				p.WriteMain = func(w io.Writer, _ string) error { return broken(w) }
			}
			require.ErrorIs(t, p.Write(), syscall.EIO)
			require.Equal(t, c.files, contents(t, dir))
		}
		for at := 1; ; at++ { // the folder is taken away from under the rename at this place
			dir := t.TempDir()
			for name, text := range c.files {
				write(t, dir, name, text)
			}
			main, renames := filepath.Join(dir, "m"), 0
			end := Observe(func(op, path string) {
				if op != "rename" {
					return
				}
				if renames++; renames == at {
					for name := range contents(t, dir) {
						if strings.HasSuffix(name, ".tmp") {
							require.NoError(t, os.Remove(filepath.Join(dir, name)))
						}
					}
				}
			})
			err := pair(main, "new", 0).Write()
			end()
			if err == nil {
				require.Less(t, renames, at)
				break
			}
			require.ErrorIs(t, err, os.ErrNotExist)
			if c.files["m.data"] == "" || at == 1 {
				require.Equal(t, c.files, contents(t, dir))
			} else {
				require.Equal(t, "new", loads(t, main))
				require.ErrorContains(t, err, main+" is written and refers to m.")
			}
		}
	}
}

// TestPairFolders: what is no file is left alone, and so is the older model.
func TestPairFolders(t *testing.T) {
	dir := t.TempDir()
	main := write(t, dir, "m", "old")
	require.NoError(t, os.Mkdir(main+".data", 0o777))
	require.ErrorContains(t, pair(main, "new", 0).Write(), "m.data: it is a directory")
	require.NoError(t, os.Remove(main+".data"))
	require.NoError(t, syscall.Mkfifo(main+".data", 0o666))
	require.ErrorContains(t, pair(main, "new", 0).Write(), "m.data: it is not a regular file")
	require.NoError(t, os.Remove(main+".data"))
	require.Equal(t, map[string]string{"m": "old"}, contents(t, dir))
	require.ErrorContains(t, pair(dir, "new", 0).Write(), "cannot write "+dir+": it is a directory")
	long := filepath.Join(dir, strings.Repeat("ü", 120))
	require.NoError(t, pair(long, "one", 0).Write())
	require.NoError(t, pair(long, "two", 0).Write())
	require.Equal(t, "two", loads(t, long))
	require.Len(t, contents(t, dir), 3)
}

// TestPairWithoutLinks: file systems without hard links get a second copy.
func TestPairWithoutLinks(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "m")
	require.NoError(t, pair(main, "old", 0).Write())
	require.NoError(t, os.Chmod(main+".data", 0o640))
	p := pair(main, "new", 0)
	data, err := begin(p.Data, p.WriteData)
	require.NoError(t, err)
	defer data.Discard()
	data.temp += "-not" // a link to what is not there fails as one on such a file system
	second := filepath.Join(dir, "second")
	require.NoError(t, p.second(data, second))
	text, err := os.ReadFile(second)
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	require.Equal(t, os.FileMode(0o640), mode(t, second))
	p.WriteData = func(io.Writer) error { return syscall.EIO }
	require.Error(t, p.second(data, second), "it already exists")
	require.FileExists(t, second)
	require.ErrorIs(t, p.second(data, filepath.Join(dir, "third")), syscall.EIO)
	require.NoFileExists(t, filepath.Join(dir, "third"))
}
