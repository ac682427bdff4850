//go:build unix && !solaris && !aix

package fileio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes a lock that ends with the open file.
func lockFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		}
		return err
	}
}
