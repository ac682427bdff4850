//go:build !unix

package executor

// mapMemory allocates on Go's heap: this system has no mappings that x/sys/unix knows.
func mapMemory(n int) ([]byte, error) { return make([]byte, n), nil }

func unmapMemory([]byte) error { return nil }
