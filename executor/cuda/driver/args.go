package driver

import (
	"encoding/binary"
	"fmt"
	"math"
)

// maxArgs is the most bytes that a kernel's parameters may have (CUDA C Programming Guide, section
// on __global__ parameters).
const maxArgs = 4096

// Args packs the struct that a kernel takes, member by member in the order of its declaration, each
// at a multiple of its size as C lays them out. The zero value is empty; Reset makes it empty again
// and keeps its memory. Methods that add a member return their receiver: a.In(x).Out(y).Int(n), for example.
type Args struct {
	buf      []byte
	align    int
	pointers []Pointer
}

// Pointer says where in the packed struct a pointer lies and which memory it stands for.
type Pointer struct {
	Offset int
	Data   []byte
	Write  bool // the kernel may write to it
}

// Reset makes a empty.
func (a *Args) Reset() *Args {
	a.buf, a.align, a.pointers = a.buf[:0], 1, a.pointers[:0]
	return a
}

// room returns n bytes at the next multiple of align.
func (a *Args) room(n, align int) []byte {
	a.pad(align)
	if len(a.buf)+n > maxArgs {
		panic(fmt.Sprintf("driver: a kernel's arguments are longer than %d bytes", maxArgs))
	}
	for range n {
		a.buf = append(a.buf, 0)
	}
	a.align = max(a.align, align)
	return a.buf[len(a.buf)-n:]
}

// pad adds zeros up to a multiple of align.
func (a *Args) pad(align int) {
	for len(a.buf)%align != 0 {
		a.buf = append(a.buf, 0)
	}
}

// In adds a pointer to memory that the kernel reads; empty memory is a null pointer.
func (a *Args) In(b []byte) *Args { return a.pointer(b, false) }

// Out adds a pointer to memory that the kernel writes to and may read.
func (a *Args) Out(b []byte) *Args { return a.pointer(b, true) }

func (a *Args) pointer(b []byte, write bool) *Args {
	at := a.room(8, 8)
	address := Address(b)
	if len(b) == 0 {
		address = 0
	}
	binary.LittleEndian.PutUint64(at, uint64(address))
	a.pointers = append(a.pointers, Pointer{len(a.buf) - 8, b, write})
	return a
}

// Int adds an i64.
func (a *Args) Int(v int) *Args { return a.Uint64(uint64(v)) }

// Uint64 adds a u64.
func (a *Args) Uint64(v uint64) *Args {
	binary.LittleEndian.PutUint64(a.room(8, 8), v)
	return a
}

// Int32 adds an i32.
func (a *Args) Int32(v int32) *Args { return a.Uint32(uint32(v)) }

// Uint32 adds a u32.
func (a *Args) Uint32(v uint32) *Args {
	binary.LittleEndian.PutUint32(a.room(4, 4), v)
	return a
}

// Float32 adds an f32.
func (a *Args) Float32(v float32) *Args { return a.Uint32(math.Float32bits(v)) }

// Float64 adds an f64.
func (a *Args) Float64(v float64) *Args { return a.Uint64(math.Float64bits(v)) }

// Divider adds a divider, which divides numbers below 2^31 by d; d is at least 1 and below 2^31.
func (a *Args) Divider(d int) *Args {
	// The smallest shift with 2^shift >= d, and mul = floor(2^32 * (2^shift - d) / d) + 1: Granlund
	// and Montgomery, Division by Invariant Integers using Multiplication, 1994, figure 4.1.
	shift := 0
	for 1<<shift < d {
		shift++
	}
	mul := (uint64(1)<<32)*(uint64(1)<<shift-uint64(d))/uint64(d) + 1
	return a.Uint32(uint32(d)).Uint32(uint32(mul)).Uint32(uint32(shift))
}

// Bytes returns the packed struct, padded as C pads it.
func (a *Args) Bytes() []byte {
	a.pad(a.align)
	return a.buf
}

// Pointers returns the pointers in the packed struct.
func (a *Args) Pointers() []Pointer { return a.pointers }
