package cleanup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func create(name string) func() (*os.File, error) {
	return func() (*os.File, error) { return os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600) }
}

// TestItems: what is undone is gone, what is kept stays, and neither is known afterwards.
func TestItems(t *testing.T) {
	dir := t.TempDir()
	gone, kept := filepath.Join(dir, "gone"), filepath.Join(dir, "kept")
	f, a, err := File(create(gone))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	f, b, err := File(create(kept))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, _, err = File(create(kept))
	require.ErrorIs(t, err, os.ErrExist)
	require.Len(t, list, 2, "what was not made is not known")
	a.Undo()
	b.Keep()
	require.Empty(t, list)
	require.NoFileExists(t, gone)
	require.FileExists(t, kept)

	require.NoError(t, os.WriteFile(gone, nil, 0o600))
	a.Undo()
	b.Undo()
	Item{}.Undo()
	Item{}.Keep()
	require.FileExists(t, gone, "it is somebody else's by now")
	require.FileExists(t, kept)

	folder, c, err := Folder(dir, "folder-")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "inside"), nil, 0o600))
	c.Undo()
	require.NoDirExists(t, folder)
	_, _, err = Folder(filepath.Join(dir, "nowhere"), "folder-")
	require.Error(t, err)
	require.Empty(t, list)
}

// TestAll: the newest goes first, what is under way is waited for, and nothing is made afterwards.
func TestAll(t *testing.T) {
	var order []string
	for _, name := range []string{"folder", "process in it"} {
		_, err := Make(func() (func(), error) { return func() { order = append(order, name) }, nil })
		require.NoError(t, err)
	}
	begun, done := make(chan bool), make(chan error)
	go func() {
		done <- Whole(func() error {
			begun <- true
			order = append(order, "half", "half")
			return errors.New("as it was")
		})
	}()
	<-begun
	All()
	require.EqualError(t, <-done, "as it was")
	require.Equal(t, []string{"half", "half", "process in it", "folder"}, order)
	require.Empty(t, list)
	require.False(t, mu.TryLock(), "the end of the program must follow")
	mu.Unlock()
}
