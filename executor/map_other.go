//go:build !unix

package executor

import "memopt/internal/memlimit"

// mapMemory allocates on Go's heap: this system has no mappings that x/sys/unix knows.
func mapMemory(n int) ([]byte, error) {
	if err := memlimit.Check(int64(n), ""); err != nil {
		return nil, err
	}
	return make([]byte, n), nil
}

func unmapMemory([]byte) error { return nil }
