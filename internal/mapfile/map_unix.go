//go:build unix

package mapfile

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"memopt/internal/memlimit"
)

// mapData maps a file of the given size. held is false where its contents had to be read.
func mapData(f *os.File, size int64) (data []byte, held bool, err error) {
	if size == 0 {
		return nil, false, nil // an empty file is not mapped
	}
	if int64(int(size)) != size {
		return nil, false, fmt.Errorf("%s: %d bytes do not fit into this machine's address space", f.Name(), size)
	}
	at, err := unix.MmapPtr(int(f.Fd()), 0, nil, uintptr(size), unix.PROT_READ, unix.MAP_SHARED)
	switch {
	case err == nil:
		return unsafe.Slice((*byte)(at), size), true, nil
	case errors.Is(err, unix.ENODEV):
		data, err = readWhole(f, size) // a file system without mappings
		return data, false, err
	case errors.Is(err, unix.ENOMEM):
		return nil, false, fmt.Errorf("mapping the %d bytes of %s: %w: %w",
			size, f.Name(), memlimit.ErrOutOfMemory, err)
	}
	return nil, false, fmt.Errorf("mapping %s: %w", f.Name(), err)
}

// mapWritable maps a file of the given size to be written.
func mapWritable(f *os.File, size int64) (data []byte, held bool, err error) {
	if size == 0 {
		return nil, false, nil // an empty file is not mapped
	}
	if int64(int(size)) != size {
		return nil, false, fmt.Errorf("%s: %d bytes do not fit into this machine's address space", f.Name(), size)
	}
	at, err := unix.MmapPtr(int(f.Fd()), 0, room(size), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, false, fmt.Errorf("mapping the %d bytes of %s: %w", size, f.Name(), err)
	}
	data = unsafe.Slice((*byte)(at), size)
	enlarge(data)
	return data, true, nil
}

func syncMapping(data []byte) error { return unix.Msync(data, unix.MS_SYNC) }

func readWhole(f *os.File, size int64) ([]byte, error) {
	if err := memlimit.Check(size, "%s", f.Name()); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if int64(n) < size {
		return nil, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return data, nil
}

func unmap(data []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(data)), uintptr(len(data)))
}

// look returns a file's size and time of modification, without allocations.
func look(f *os.File) (int64, time.Time, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, time.Time{}, err
	}
	return st.Size, time.Unix(st.Mtim.Unix()), nil
}

// drop is advice: a system that does not follow it keeps the pages. Those of a shared mapping
// without writers are the file's.
func drop(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) }
