//go:build unix

package executor

import (
	"fmt"

	"golang.org/x/sys/unix"

	"memopt/internal/memlimit"
)

// mapMemory returns n bytes of zeroed memory outside Go's heap. The system hands out pages
// when they are first touched. The error wraps ErrOutOfMemory.
func mapMemory(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if err := memlimit.Check(int64(n), ""); err != nil {
		return nil, err
	}
	data, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("%w: mapping %d bytes: %w", ErrOutOfMemory, n, err)
	}
	memlimit.Promise(int64(n))
	advise(data)
	return data, nil
}

func unmapMemory(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	memlimit.Promise(-int64(len(data)))
	return unix.Munmap(data)
}
