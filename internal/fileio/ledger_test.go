//go:build unix

package fileio

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// names are ways to say one file.
func names(t *testing.T, path string) []string {
	t.Helper()
	dir, base := filepath.Split(path)
	hard, symbolic, folder := filepath.Join(dir, "hard"), filepath.Join(dir, "symbolic"), filepath.Join(dir, "folder")
	require.NoError(t, os.Link(path, hard))
	require.NoError(t, os.Symlink(base, symbolic))
	require.NoError(t, os.Symlink(".", folder))
	return []string{path, dir + "./" + base, filepath.Join(dir, "folder", base), filepath.Join(dir, "folder", "hard"),
		hard, symbolic}
}

// TestInputsAreSpared: whatever an input is called, and whether it or the output is noted first.
func TestInputsAreSpared(t *testing.T) {
	dir := t.TempDir()
	in, other := write(t, dir, "in", "text"), write(t, dir, "other", "text")
	for _, name := range names(t, in) {
		var l Ledger
		require.NoError(t, l.Input("--config", in))
		require.EqualError(t, l.Output("--save-plan", name),
			"--save-plan "+name+": is the file that is read as --config "+in+
				", and an input is never overwritten; choose another name")
		require.NoError(t, l.Output("--save-plan", other))

		l = Ledger{}
		require.NoError(t, l.Output("--save-plan", name))
		require.NoError(t, l.Output("--save-plan", name), "before it is written")
		require.EqualError(t, l.Input("--config", in), "--save-plan "+name+": is the file that is read as --config "+in+
			", and an input is never overwritten; choose another name")

		f, err := os.Open(name)
		require.NoError(t, err)
		l = Ledger{}
		require.NoError(t, l.InputFile("standard input", f))
		require.ErrorContains(t, l.Output("", in), in+": is the file that is read as standard input")
		require.NoError(t, f.Close())
	}
	var l Ledger
	for _, path := range []string{in, other} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, l.Input("--config", in))
		descriptor := fmt.Sprintf("/dev/fd/%d", f.Fd())
		err = l.Output("--out", descriptor)
		require.Equal(t, path == in, err != nil, "%v", err)
		require.Equal(t, path == in, l.Output("--out", descriptor) != nil)
	}
	l = Ledger{}
	require.NoError(t, l.Input("--config", filepath.Join(dir, "missing")))
	require.NoError(t, l.Output("--out", filepath.Join(dir, "missing")), "what is not there is not read")
	require.NoError(t, l.Input("--config", os.DevNull))
	require.NoError(t, l.Output("--out", os.DevNull))
	require.NoError(t, l.Output("--out", filepath.Join(dir, "no", "such")))
}

// TestOutputsAreApart: two outputs are two files, those that exist and those that do not.
func TestOutputsAreApart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range names(t, write(t, dir, "out", "text")) {
		var l Ledger
		require.NoError(t, l.Output("--save-plan", name))
		require.NoError(t, l.Output("--save-config", filepath.Join(dir, "new")))
		require.NoError(t, l.Output("--save-config", filepath.Join(dir, "new")))
		require.EqualError(t, l.Output("--save-config", filepath.Join(dir, "out")),
			"--save-plan "+name+" and --save-config "+filepath.Join(dir, "out")+
				" are one file; choose another name for one of them")
		folder := filepath.Join(dir, "folder", "new")
		require.EqualError(t, l.Output("--profile", folder), "--save-config "+filepath.Join(dir, "new")+
			" and --profile "+folder+" are one file; choose another name for one of them")
	}
	// Where the file system takes two names for one, it shows when the first is written.
	var l Ledger
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "A")
	require.NoError(t, l.Output("output a:", a))
	require.NoError(t, WriteFile(a, nil))
	l.Written("output a:", a)
	require.NoError(t, os.Link(a, b))
	require.ErrorContains(t, l.Output("output A:", b), "are one file")
}

// TestStreams: what is printed does not go to an input or to another output, and a message about
// that does not either.
func TestStreams(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "in", "text")
	stream, err := os.OpenFile(in, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer stream.Close()
	other, err := os.Create(filepath.Join(dir, "other"))
	require.NoError(t, err)
	defer other.Close()
	for _, name := range names(t, in) {
		var l Ledger
		l.Stream("standard output", stream)
		l.Stream("standard error", other)
		var e *StreamError
		err := l.Input("the model", name)
		require.ErrorAs(t, err, &e)
		require.EqualError(t, err, "standard output goes to the file that is read as the model "+name+
			"; send it to another one")
		require.True(t, e.Concerns(stream))
		require.False(t, e.Concerns(other))
		err = l.Output("--profile", other.Name())
		require.ErrorAs(t, err, &e)
		require.EqualError(t, err,
			"--profile "+other.Name()+": standard error goes to this file, too; choose another name for one of them")
		require.True(t, e.Concerns(other))
	}
	require.NoError(t, os.Truncate(in, 0))
	var l Ledger
	l.Stream("standard output", stream)
	l.Stream("standard error", stream)
	require.EqualError(t, l.Input("the model", in),
		"standard output and standard error goes to the file that is read as the model "+in+
			", and the shell has emptied it already; send it to another one")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	l.Stream("standard output", null)
	require.NoError(t, l.Input("the model", os.DevNull))
}
