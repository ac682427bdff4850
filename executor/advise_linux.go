package executor

import "golang.org/x/sys/unix"

// Allocations of hugeRegion bytes or more are requested in huge pages: one page fault instead of
// 512.
const hugeRegion = 8 << 20

// advise asks for huge pages, which a system may ignore.
func advise(data []byte) {
	if len(data) >= hugeRegion {
		unix.Madvise(data, unix.MADV_HUGEPAGE)
	}
}
