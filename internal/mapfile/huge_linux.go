package mapfile

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a huge page on x86-64, and on arm64 with small ones of 4 KiB.
const hugePage = 2 << 20

// room returns an address that a mapping of so many bytes can have, at which the system can use huge pages for it; nil
// if it does not matter, or none is known.
func room(size int64) unsafe.Pointer {
	if size < hugePage {
		return nil
	}
	n := uintptr(size) + hugePage
	at, err := unix.MmapPtr(-1, 0, nil, n, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil || unix.MunmapPtr(at, n) != nil {
		return nil
	}
	return unsafe.Add(at, -uintptr(at)%hugePage)
}

// enlarge makes huge pages of the pages of a file in memory (tmpfs), where the system can (Linux 6.1, madvise(2),
// MADV_COLLAPSE): kernels that go through it miss fewer entries of the tables of pages.
func enlarge(data []byte) {
	const atOnce = 32 * hugePage // a signal is noticed between
	for len(data) >= hugePage {
		n := min(len(data), atOnce) / hugePage * hugePage
		if err := unix.Madvise(data[:n], unix.MADV_COLLAPSE); err == unix.EINVAL {
			return // a file system or a kernel that cannot
		}
		data = data[n:]
	}
}
