package fileio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives a file its blocks on the disk.
func allocate(f *os.File, bytes int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, bytes)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EOPNOTSUPP):
			return f.Truncate(bytes) // a file system that gives blocks when they are written
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}
