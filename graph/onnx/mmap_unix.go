//go:build unix

package onnx

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapping is a file in memory, read-only.
type mapping struct {
	data []byte
	held bool // by the kernel, not by Go's heap
}

// mapFile maps a regular file. The mapping outlives f. A file that shrinks while it
// is mapped ends the process on access, as with every mapping.
func mapFile(f *os.File) (mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return mapping{}, err
	}
	size := info.Size()
	if size == 0 {
		return mapping{}, nil // nothing to map
	}
	if int64(int(size)) != size {
		return mapping{}, fmt.Errorf("%s: %d bytes do not fit into this machine's address space", f.Name(), size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if errors.Is(err, unix.ENODEV) {
		return readWhole(f, size) // a file system without mappings
	}
	if err != nil {
		return mapping{}, fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	return mapping{data: data, held: true}, nil
}

func readWhole(f *os.File, size int64) (mapping, error) {
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if int64(n) < size {
		return mapping{}, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return mapping{data: data}, nil
}

func (m mapping) close() error {
	if !m.held {
		return nil
	}
	return unix.Munmap(m.data)
}
