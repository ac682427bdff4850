//go:build unix

package fileio

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeFolder writes a folder of one file.
func writeFolder(path, name, text string) error {
	d, err := CreateFolder(path)
	if err != nil {
		return err
	}
	defer d.Discard()
	if err := d.Write(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
		return err
	}
	return d.Commit()
}

// TestFolder: a folder appears with its files, replaces one of its name, files included, where the
// system can exchange names and where it cannot, and leaves nothing else behind.
func TestFolder(t *testing.T) {
	defer func() { exchangeNames = exchange }()
	for _, can := range []bool{true, false} {
		if exchangeNames = exchange; !can {
			exchangeNames = func(string, string) error { return errors.ErrUnsupported }
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "folder")
		require.NoError(t, writeFolder(path, "a", "old"))
		require.NoError(t, writeFolder(path, "b", "new"))
		require.Equal(t, map[string]string{"b": "new"}, contents(t, path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, 0o777&^umask(), info.Mode().Perm())
		list, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.NoError(t, RemoveFolder(path))
		require.NoDirExists(t, path)
		require.ErrorContains(t, RemoveFolder(path), "cannot remove "+path)
	}
}

// TestFolderFaults: a folder that cannot be written whole is not there at all.
func TestFolderFaults(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	d, err := CreateFolder(path)
	require.NoError(t, err)
	broken := errors.New("broken")
	require.ErrorIs(t, d.Write("a", func(io.Writer) error { return broken }), broken)
	require.ErrorIs(t, d.Write("b", func(io.Writer) error { return nil }), broken, "the first error stays")
	require.ErrorIs(t, d.Commit(), broken)
	d.Discard()
	require.Error(t, d.Commit(), "it has ended")
	d, err = CreateFolder(path)
	require.NoError(t, err)
	require.ErrorContains(t, d.Write("no/such", func(io.Writer) error { return nil }), "cannot write "+path+"/no/such")
	d.Discard()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = CreateFolder(filepath.Join(dir, "nowhere", "folder"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	require.ErrorContains(t, writeFolder(path, "a", ""), "no directory")
	(*Folder)(nil).Discard()
}

// TestLeftovers: what a run that was killed has left goes, and nothing else.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	d, err := CreateFolder(filepath.Join(dir, "folder"))
	require.NoError(t, err)
	defer d.Discard()
	require.NoError(t, d.Write("a", func(io.Writer) error { return nil }))
	f, err := Create(filepath.Join(dir, "file"))
	require.NoError(t, err)
	defer f.Discard()
	for _, name := range []string{"a.tmp", ".memopt-x", "tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
	}
	require.NoError(t, RemoveLeftovers(dir))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Error(t, RemoveLeftovers(filepath.Join(dir, "nowhere")))
}

// TestLock: one at a time has a lock, and the file says who.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := TakeLock(path, "the first, at length")
	require.NoError(t, err)
	_, err = TakeLock(path, "another")
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	require.EqualError(t, err, path+" is locked by another process: the first, at length")
	require.NoError(t, l.Release())
	l, err = TakeLock(path, "the second")
	require.NoError(t, err)
	_, err = TakeLock(path, "")
	require.ErrorContains(t, err, ": the second")
	require.NoError(t, l.Release())
	require.NoError(t, (*Lock)(nil).Release())
	_, err = TakeLock(t.TempDir(), "")
	require.ErrorContains(t, err, "is a directory")
	require.Equal(t, "x is locked by another process", (&LockedError{Path: "x"}).Error())
}
