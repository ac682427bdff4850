package ort

import (
	"fmt"
	"os"
)

// Tensors in a Heap begin at multiples of heapAlignment bytes.
const heapAlignment = 64

// Heap is memory that this process and the second one share (Program.Heap): a file without a name
// that grows, and that is gone with the last process that has it. This process reads and writes it
// as a file, so that it counts once; the second one maps the parts that models use. It is used by
// one goroutine at a time.
type Heap struct {
	file *os.File
	size int64
}

// Take makes room for n bytes of zeros and returns where they begin. No memory is taken before they
// are written to, or mapped.
func (h *Heap) Take(n int) (at int64, err error) {
	at = (h.size + heapAlignment - 1) / heapAlignment * heapAlignment
	if err := h.file.Truncate(at + int64(n)); err != nil {
		return 0, fmt.Errorf("memory to share with ONNX Runtime's process: %w", err)
	}
	h.size = at + int64(n)
	return at, nil
}

// Write copies data to a place that Take returned.
func (h *Heap) Write(at int64, data []byte) error {
	_, err := h.file.WriteAt(data, at)
	return err
}

// Zero writes n zeros to a place that Take returned.
func (h *Heap) Zero(at int64, n int) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		part := zeros[:min(n, len(zeros))]
		if err := h.Write(at, part); err != nil {
			return err
		}
		at, n = at+int64(len(part)), n-len(part)
	}
	return nil
}

// Read copies from a place that Take returned.
func (h *Heap) Read(at int64, dst []byte) error {
	_, err := h.file.ReadAt(dst, at)
	return err
}

// Close gives the heap up; the second process keeps its mappings.
func (h *Heap) Close() error { return h.file.Close() }
