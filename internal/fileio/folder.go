package fileio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"memopt/internal/cleanup"
)

// Folder is a folder of files being written, which appears under its name with all of them or not at
// all. Until then its files lie in a folder .memopt-<16 digits>.tmp beside it.
type Folder struct {
	path, temp string
	item       cleanup.Item
	err        error // the first one; Commit reports it
	ended      bool
}

// CreateFolder starts a folder. Every Folder is ended with Commit or Discard.
func CreateFolder(path string) (*Folder, error) {
	if info, err := os.Lstat(path); err == nil && !info.IsDir() {
		return nil, failed(path, errors.New("it is there and no directory"))
	}
	temp := filepath.Join(filepath.Dir(path), unique(tempPrefix, tempSuffix))
	trace("create", temp)
	item, err := cleanup.Make(func() (func(), error) {
		return func() { os.RemoveAll(temp) }, os.Mkdir(temp, 0o700)
	})
	if err != nil {
		return nil, failed(path, err)
	}
	return &Folder{path: path, temp: temp, item: item}, nil
}

// Write writes a file of the folder and flushes it to the disk.
func (d *Folder) Write(name string, write func(io.Writer) error) error {
	if d.err != nil {
		return d.err
	}
	temp := filepath.Join(d.temp, name)
	trace("create", temp)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		d.err = failed(filepath.Join(d.path, name), err)
		return d.err
	}
	file := &File{f: f, path: filepath.Join(d.path, name), temp: temp}
	returns := false
	defer func() {
		if !returns { // but panics: the caller handles it, and discards the folder
			f.Close()
		}
	}()
	file.fail(write(file))
	returns = true
	if d.err = file.Seal(); d.err != nil {
		f.Close()
	}
	return d.err
}

// Commit gives the folder its name. A folder of that name is replaced, files that the new one does
// not have included. After an error, which may be one of an earlier call, everything is as before.
func (d *Folder) Commit() error {
	defer d.Discard()
	if d.err != nil {
		return d.err
	}
	trace("change", d.temp)
	if err := os.Chmod(d.temp, 0o777&^umask()); err != nil {
		return failed(d.path, err)
	}
	trace("sync", d.temp)
	syncFolder(d.temp)
	err := cleanup.Whole(func() error { return replaceFolder(d.temp, d.path) })
	if err != nil {
		return failed(d.path, err)
	}
	trace("sync", d.path)
	syncFolder(filepath.Dir(d.path))
	return nil
}

// exchangeNames is exchange, or a test's.
var exchangeNames = exchange

// replaceFolder gives a folder another's place, which takes its own, if the system can do that at
// once; else the older one is away for a moment.
func replaceFolder(temp, path string) error {
	trace("rename", path)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return os.Rename(temp, path)
	}
	if exchangeNames(temp, path) == nil {
		return nil
	}
	older := filepath.Join(filepath.Dir(path), unique(tempPrefix, tempSuffix))
	trace("rename", older)
	if err := os.Rename(path, older); err != nil {
		return err
	}
	trace("rename", path)
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Rename(older, path))
	}
	trace("remove", older)
	return os.RemoveAll(older)
}

// Discard ends a folder that is not wanted. After Commit it only removes the folder that was
// replaced.
func (d *Folder) Discard() {
	if d == nil || d.ended {
		return
	}
	d.ended = true
	if d.err == nil {
		d.err = os.ErrClosed
	}
	trace("remove", d.temp)
	d.item.Undo()
}

// RemoveFolder removes a folder so that it is there with all of its files or not at all.
func RemoveFolder(path string) error {
	temp := filepath.Join(filepath.Dir(path), unique(tempPrefix, tempSuffix))
	trace("rename", temp)
	if err := os.Rename(path, temp); err != nil {
		return fmt.Errorf("cannot remove %s: %w", path, reason(err))
	}
	trace("remove", temp)
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("cannot remove %s: %w", path, reason(err))
	}
	return nil
}

// RemoveLeftovers removes the leftovers of killed runs from a folder: files and folders under the
// names that outputs have before they are complete. No other process may be writing into the
// folder.
func RemoveLeftovers(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, reason(err))
	}
	for _, entry := range list {
		name := entry.Name()
		if !strings.HasPrefix(name, tempPrefix) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		path := filepath.Join(dir, name)
		trace("remove", path)
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("cannot remove %s, which a run that was killed has left: %w", path, reason(err))
		}
	}
	return nil
}
