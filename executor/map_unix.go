//go:build unix

package executor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory returns n bytes of zeroed memory outside Go's heap. The system hands out pages
// when they are first touched.
func mapMemory(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	data, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes: %w", n, err)
	}
	advise(data)
	return data, nil
}

func unmapMemory(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return unix.Munmap(data)
}
