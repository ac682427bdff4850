package executor

import "golang.org/x/sys/unix"

// hugeRegion is the size from which on memory is asked for in huge pages: one fault in place of
// 512.
const hugeRegion = 8 << 20

// advise asks for huge pages. A system without them does without.
func advise(data []byte) {
	if len(data) >= hugeRegion {
		unix.Madvise(data, unix.MADV_HUGEPAGE)
	}
}
