package cpu

import (
	"sync"

	"memopt/executor"
)

// elemBytes is the size of a buffer. A block has as many elements as fit.
const elemBytes = 4096

// elemBuffer is memory for a block, aligned for every type.
type elemBuffer [elemBytes / 8]uint64

// bytes returns the first n bytes of the buffer.
func (b *elemBuffer) bytes(n int) []byte { return executor.Memory(b[:])[:n] }

// elemFloats returns the first n elements of a buffer.
func elemFloats[T elemFloat](b *elemBuffer, n int) []T {
	return executor.Cast[T](executor.Memory(b[:]))[:n]
}

// elemBuffers are the buffers that a running loop needs. They cannot be on its stack: loops are
// called through function values, and the compiler must assume that these retain their arguments.
type elemBuffers struct {
	b    [5]elemBuffer
	next *elemBuffers
}

// freeBuffers are those not in use.
var freeBuffers struct {
	sync.Mutex
	first *elemBuffers
	made  int // used or not
}

// reserveBuffers makes sure that the loops of a run find buffers: for each thread one set for the
// driver and one for a function that takes several loops.
func reserveBuffers(c *executor.Ctx) {
	freeBuffers.Lock()
	for freeBuffers.made < 2*c.Threads() {
		freeBuffers.made++
		freeBuffers.first = &elemBuffers{next: freeBuffers.first}
	}
	freeBuffers.Unlock()
}

// takeBuffers returns buffers with arbitrary contents, to be used until giveBack.
func takeBuffers() *elemBuffers {
	freeBuffers.Lock()
	defer freeBuffers.Unlock()
	m := freeBuffers.first
	if m == nil {
		freeBuffers.made++
		return &elemBuffers{}
	}
	freeBuffers.first = m.next
	return m
}

func (m *elemBuffers) giveBack() {
	freeBuffers.Lock()
	m.next, freeBuffers.first = freeBuffers.first, m
	freeBuffers.Unlock()
}
