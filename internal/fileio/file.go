package fileio

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"memopt/internal/cleanup"
)

// File is an output being written: its contents do not appear under its name before Commit.
type File struct {
	f      *os.File
	path   string
	temp   string // "" where the output is written to in place
	item   cleanup.Item
	old    os.FileInfo // the file that it replaces; nil if that has no permissions to keep
	sealed bool
	err    error // the first one; Commit reports it
}

// Create starts an output. Every File is ended with Commit or Discard.
func Create(path string) (*File, error) {
	if fd, ok := descriptor(path); ok {
		f, err := duplicate(fd, path)
		if err != nil {
			return nil, failed(path, err)
		}
		return &File{f: f, path: path}, nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, failed(path, errIsFolder)
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, failed(path, err)
		}
		return &File{f: f, path: path}, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, failed(path, err)
	}
	old, err := os.Lstat(path)
	if err != nil || !old.Mode().IsRegular() {
		old = nil // there is no file, or a link, whose permissions are meaningless
	}
	f, item, err := createTemp(filepath.Dir(path))
	if err != nil {
		return nil, failed(path, err)
	}
	return &File{f: f, path: path, temp: f.Name(), item: item, old: old}, nil
}

// WriteFile writes an output that is in memory.
func WriteFile(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write writes an output.
func Write(path string, write func(io.Writer) error) error {
	f, err := begin(path, write)
	defer f.Discard()
	if err != nil {
		return err
	}
	return f.Commit()
}

// begin writes an output up to its name.
func begin(path string, write func(io.Writer) error) (*File, error) {
	f, err := Create(path)
	if err != nil {
		return nil, err
	}
	returns := false
	defer func() {
		if !returns { // but panics, as when a mapped file has become shorter; the caller handles it
			f.Discard()
		}
	}()
	f.fail(write(f))
	returns = true
	return f, f.Seal()
}

// failed makes the error of a call on the output.
func failed(path string, err error) error {
	return fmt.Errorf("cannot write %s: %w", path, reason(err))
}

// reason returns an error of the system without the path that it is about. The text of wrapped
// errors stays: it is not about the output.
func reason(err error) error {
	switch e := err.(type) {
	case *os.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// fail remembers the first error, and returns it. An error about another file, the source of a
// copy, keeps its path.
func (f *File) fail(err error) error {
	if err == nil || f.err != nil {
		return f.err
	}
	if e, ok := err.(*os.PathError); ok && e.Path != f.f.Name() {
		err = fmt.Errorf("%w", err)
	}
	f.err = failed(f.path, err)
	return f.err
}

// Write writes to the file.
func (f *File) Write(data []byte) (int, error) {
	n, err := f.f.Write(data)
	return n, f.fail(err)
}

// ReadFrom copies from a reader; the kernel does it where that is a file.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	n, err := f.f.ReadFrom(r)
	return n, f.fail(err)
}

// Replaceable reports whether a path is free or a file that a rename may replace, and no device,
// pipe or descriptor.
func Replaceable(path string) bool {
	if _, ok := descriptor(path); ok {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular() || info.IsDir()
}

// InPlace reports whether the output is a device, a pipe or a descriptor, which is written to as it
// is.
func (f *File) InPlace() bool { return f.temp == "" }

// Seal gives the file its permissions, flushes it to the disk and closes it; only the renaming is
// left.
func (f *File) Seal() error {
	if f.sealed || f.err != nil {
		return f.err
	}
	f.sealed = true
	if !f.InPlace() {
		trace("change", f.temp)
		f.fail(settle(f.f, f.old))
		trace("sync", f.temp)
		f.fail(f.f.Sync())
	}
	f.fail(f.f.Close())
	return f.err
}

// Commit gives the file its name, replacing a file of that name. After an error, which may be one
// of an earlier call, everything is as before.
func (f *File) Commit() error {
	defer f.Discard()
	if err := f.Seal(); err != nil {
		return err
	}
	return f.place()
}

// place renames a sealed file.
func (f *File) place() error {
	if f.InPlace() {
		return nil
	}
	trace("rename", f.path)
	if f.fail(os.Rename(f.temp, f.path)) == nil {
		trace("sync", f.path)
		syncFolder(filepath.Dir(f.path))
	}
	return f.err
}

// Discard ends a file that is not wanted. After Commit it has no effect.
func (f *File) Discard() {
	if f == nil {
		return
	}
	if !f.sealed {
		f.sealed = true
		f.fail(os.ErrClosed)
		f.f.Close()
	}
	if !f.InPlace() {
		trace("remove", f.temp)
	}
	f.item.Undo() // it is already gone if it has been renamed
}

// unique returns a name that begins with prefix, ends with suffix and has 64 random bits between.
func unique(prefix, suffix string) string {
	var random [8]byte
	rand.Read(random[:])
	return prefix + fmt.Sprintf("%x", random) + suffix
}

// The beginning and the end of the names of outputs before they are complete.
const tempPrefix, tempSuffix = ".memopt-", ".tmp"

// createTemp creates a file in a folder, under a name that is not in use, for its owner alone.
func createTemp(dir string) (*os.File, cleanup.Item, error) {
	const attempts = 100
	for attempt := 1; ; attempt++ {
		path := filepath.Join(dir, unique(tempPrefix, tempSuffix))
		trace("create", path)
		f, item, err := cleanup.File(func() (*os.File, error) {
			return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
		})
		if !errors.Is(err, os.ErrExist) || attempt == attempts {
			return f, item, err
		}
	}
}

// syncFolder makes new names durable, if the system supports it.
func syncFolder(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync() // some file systems cannot; the files themselves are flushed
		f.Close()
	}
}

// errOwner says that an older file belongs to another user.
var errOwner = errors.New("the existing file belongs to another user or group, to whom a new one " +
	"cannot be given: remove it first, or choose another name")

var errIsFolder = errors.New("it is a directory; give the name of a file")

// permissions are those of a new file before the umask applies.
const permissions = 0o666

// settle gives a new file the permissions of the one that it replaces, else those that the umask
// leaves.
func settle(f *os.File, old os.FileInfo) error {
	if old == nil {
		return f.Chmod(permissions &^ umask())
	}
	if err := keepOwner(f, old); err != nil {
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL) {
			return errOwner
		}
		return err
	}
	return f.Chmod(old.Mode().Perm())
}

// observer, set by tests, is called before each change to the file system.
var observer func(op, path string)

// Observe makes a function be called before each change to the file system, with its kind and the
// path, so that tests can see the files that a process leaves behind if it dies there. The returned
// function ends that.
func Observe(f func(op, path string)) (end func()) {
	observer = f
	return func() { observer = nil }
}

func trace(op, path string) {
	if observer != nil {
		observer(op, path)
	}
}
