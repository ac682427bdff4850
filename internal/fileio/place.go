package fileio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// errIsLink refuses a symbolic link at a place that belongs to a run's own folder: whoever can write into the
// folder could have it lead anywhere.
var errIsLink = errors.New("it is a symbolic link, which is not followed: put its target in its place, or " +
	"name another folder")

// MakeFolder makes a folder inside one that a run writes, unless it is there. A symbolic link is refused.
func MakeFolder(path string) error {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return failed(path, err)
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return failed(path, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return failed(path, errIsLink)
	}
	return nil
}

// OpenAppend opens a regular file for reading, and for writing at its end, or makes it. A symbolic link is
// refused, and so is any file that is not regular.
func OpenAppend(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, failed(path, errIsLink)
	} else if err == nil && !info.Mode().IsRegular() {
		return nil, failed(path, errNotRegular)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|noFollow, permissions)
	if err != nil {
		return nil, failed(path, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, failed(path, errors.Join(err, errNotRegular))
	}
	return f, nil
}

// Reserve makes a file of so many bytes, all on the disk, so that writes to a mapping of it find room. A file of
// another size begins anew, with zeros. The error of a full disk is one that Full knows.
func Reserve(f *os.File, bytes int64) error {
	if info, err := f.Stat(); err != nil || info.Size() != bytes {
		if err := errors.Join(err, f.Truncate(0)); err != nil {
			return failed(f.Name(), err)
		}
	}
	if bytes > 0 {
		if err := allocate(f, bytes); err != nil {
			return failed(f.Name(), errors.Join(fmt.Errorf("%d bytes are wanted: %w", bytes, err), f.Truncate(0)))
		}
	}
	return nil
}

// errNotRegular refuses devices, pipes and folders.
var errNotRegular = errors.New("it is not a regular file; name another folder, or move it away")

// Full reports whether an error says that a disk, or a user's share of it, is full.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
