package allocator

import (
	"errors"
	"fmt"
	"strings"
)

// OutOfMemoryError says that an allocator has no memory for a request, in the words of its runtime.
type OutOfMemoryError struct {
	Words string // the runtime's message
	Asked int64  // bytes of the request
	Usage Usage  // when it came, after all that could be given back to the device was
}

func (e *OutOfMemoryError) Error() string { return e.Words }

// outOfMemory is the error of an allocator.
func outOfMemory(err error) *OutOfMemoryError {
	e := &OutOfMemoryError{}
	if !errors.As(err, &e) {
		e.Words = err.Error()
	}
	return e
}

// torchSize is a size in PyTorch's messages (format_size).
func torchSize(n int64) string {
	const kib = 1 << 10
	switch {
	case n <= kib:
		return fmt.Sprintf("%d bytes", n)
	case n <= kib*kib:
		return fmt.Sprintf("%.2f KiB", float64(n)/kib)
	case n <= kib*kib*kib:
		return fmt.Sprintf("%.2f MiB", float64(n)/(kib*kib))
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(kib*kib*kib))
}

// fail is the error of a request that asks the device for so many bytes.
func (c *Caching) fail(asked, segment int64) error {
	allowed := ""
	if c.limit > 0 {
		allowed = torchSize(c.limit) + " allowed; "
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CUDA out of memory. Tried to allocate %s. GPU 0 has a total capacity of %s of which %s is free. "+
		"Including non-PyTorch memory, this process has %s memory in use. %sOf the allocated memory %s is allocated "+
		"by PyTorch, ", torchSize(segment), torchSize(c.memory.Total), torchSize(c.memory.free(c.usage.Reserved)),
		torchSize(c.memory.Other+c.usage.Reserved), allowed, torchSize(c.usage.Allocated))
	fmt.Fprintf(&b, "and %s is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "+
		"setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "+
		"Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"+
		"#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)", torchSize(c.usage.Reserved-c.usage.Allocated))
	return &OutOfMemoryError{Words: b.String(), Asked: asked, Usage: c.usage}
}
