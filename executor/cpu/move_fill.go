package cpu

import (
	"memopt/executor"
)

// moveFiller sets all elements of an array to one value.
type moveFiller struct {
	dst   []byte
	size  int
	value [8]byte // its first size bytes count
}

// zero clears memory.
func (f *moveFiller) zero(c *executor.Ctx, dst []byte) { f.run(c, dst, 1, [8]byte{}) }

// run sets dst to elements of size bytes.
func (f *moveFiller) run(c *executor.Ctx, dst []byte, size int, value [8]byte) {
	f.dst, f.size, f.value = dst, size, value
	c.Parallel(len(dst), 64<<10, f)
}

// Range sets bytes; pieces begin at multiples of every element size.
func (f *moveFiller) Range(lo, hi int) {
	d := f.dst[lo:hi]
	if f.value == [8]byte{} {
		clear(d)
		return
	}
	moveRepeat(d, f.value[:f.size])
}

// moveRepeat repeats an element.
func moveRepeat(dst, value []byte) {
	// The finished part doubles in every step, so that a few long copies do most of the work.
	for n := copy(dst, value); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// moveElement returns element i of an array as a moveFiller takes it.
func moveElement(data []byte, i, size int) (v [8]byte) {
	copy(v[:], data[i*size:(i+1)*size])
	return v
}
