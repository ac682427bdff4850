package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// moveDims is MOVE_DIMS of kernels/move.h.
const moveDims = 8

// boxAxis is an axis of a box: its length, and how far apart its elements are in the destination
// and in the source.
type boxAxis struct{ n, to, from int }

// boxCopy copies between two strided arrays: for every index of a box, the element of the
// destination at toAt + sum of index*to becomes the element of the source at fromAt + sum of
// index*from. No two indices may name the same element of the destination. Most operators that move
// data are one such copy, or a few. For example, Concat is one per input.
//
// It is the operand.Copier of this device: a kernel embeds a boxCopy, describes the box from the
// outermost axis of the destination to the innermost by Begin and Add, and calls Copy.
type boxCopy struct {
	d     *Device
	bytes int // per element: 1, 2, 4 or 8
	axes  []boxAxis
	wide  []boxAxis  // axes, in words
	moves [5]*launch // by log2 of the word
	plane *launch
}

// newBoxCopy loads the kernels for elements of a size.
func newBoxCopy(d *Device, p *executor.Prep, size int) (boxCopy, error) {
	b := boxCopy{d: d, bytes: size}
	if size != 1 && size != 2 && size != 4 && size != 8 {
		return b, noTypes(p)
	}
	var err error
	for i := range b.moves {
		if w := 1 << i; w >= size {
			if b.moves[i], err = d.launch("move", "move_"+sizeName(w)); err != nil {
				return b, err
			}
		}
	}
	b.plane, err = d.launch("move", "plane_"+sizeName(size))
	return b, err
}

// sizeName ends the names of kernels for elements of a size.
func sizeName(size int) string {
	if size == 16 {
		return "16"
	}
	return string(rune('0' + size))
}

// Begin starts the description of a box.
func (b *boxCopy) Begin() { b.axes = b.axes[:0] }

// Add adds an axis inside those that were added before. It is merged with its neighbour if both
// arrays step through the two as through one.
func (b *boxCopy) Add(n, to, from int) {
	if n == 1 {
		return
	}
	if last := len(b.axes) - 1; last >= 0 {
		if x := &b.axes[last]; x.to == n*to && x.from == n*from {
			x.n, x.to, x.from = x.n*n, to, from
			return
		}
	}
	b.axes = append(b.axes, boxAxis{n, to, from})
}

// Copy copies the box that was described.
func (b *boxCopy) Copy(c *executor.Ctx, dst []byte, toAt int, src []byte, fromAt int) error {
	total := 1
	for _, x := range b.axes {
		total *= x.n
	}
	if total == 0 {
		return nil
	}
	last := len(b.axes) - 1
	if last < 0 || last == 0 && b.axes[0].to == 1 && b.axes[0].from == 1 {
		n := total * b.bytes
		to, from := dst[toAt*b.bytes:][:n], src[fromAt*b.bytes:][:n]
		if &to[0] == &from[0] {
			return nil
		}
		return b.d.driver.Copy(b.d.stream, to, from)
	}
	if err := fits(c, b.axes); err != nil {
		return err
	}
	if i := b.planeAxis(); i >= 0 {
		return b.copyPlanes(i, dst, toAt, src, fromAt)
	}
	word := b.widen(dst, toAt, src, fromAt)
	k := b.moves[word]
	times := (1 << word) / b.bytes
	a := k.begin().In(src).Out(dst).Int(toAt / times).Int(fromAt / times)
	if b.wide[last].to == 1 {
		total /= times
	}
	a.Int(total)
	b.pack(a, b.wide)
	return k.line(total, 1)
}

// fits rejects boxes that the kernels cannot handle.
func fits(c *executor.Ctx, axes []boxAxis) error {
	if len(axes) > moveDims {
		return c.Errorf("%d axes lie apart in memory; the CUDA kernels have no more than %d", len(axes), moveDims)
	}
	for _, x := range axes {
		if x.n >= 1<<31 {
			return c.Errorf("has an axis of length %d; the CUDA kernels take lengths below 2^31", x.n)
		}
	}
	return nil
}

// widen sets wide to the axes in words of as many elements as lie together in all runs, and are
// aligned. It returns log2 of the word's bytes.
func (b *boxCopy) widen(dst []byte, toAt int, src []byte, fromAt int) int {
	word := 0
	for 1<<word < b.bytes {
		word++
	}
	b.wide = append(b.wide[:0], b.axes...)
	last := len(b.axes) - 1
	if b.axes[last].to != 1 || b.axes[last].from != 1 {
		return word
	}
	// The lowest bit of all that is to be a multiple of the word, in bytes.
	all := toAt | fromAt | b.axes[last].n
	for _, x := range b.axes[:last] {
		all |= x.to | x.from
	}
	all = all*b.bytes | int(driver.Address(dst)) | int(driver.Address(src)) | 16
	for 2<<word <= all&-all {
		word++
	}
	times := (1 << word) / b.bytes
	for i := range last {
		b.wide[i].to /= times
		b.wide[i].from /= times
	}
	b.wide[last].n /= times
	return word
}

// pack packs axes, to and from, for up to moveDims axes.
func (b *boxCopy) pack(a *driver.Args, axes []boxAxis) {
	packAxes(a, len(axes), func(i int) int { return axes[len(axes)-1-i].n })
	packInts(a, len(axes), func(i int) int { return axes[len(axes)-1-i].to })
	packInts(a, len(axes), func(i int) int { return axes[len(axes)-1-i].from })
}

// packAxes packs the struct axes: n lengths, the innermost first.
func packAxes(a *driver.Args, n int, length func(i int) int) {
	a.Int32(int32(n))
	for i := range moveDims {
		if i < n {
			a.Divider(length(i))
		} else {
			a.Divider(1)
		}
	}
}

// packInts packs moveDims numbers; the first n count.
func packInts(a *driver.Args, n int, value func(i int) int) {
	for i := range moveDims {
		if i < n {
			a.Int(value(i))
		} else {
			a.Int(0)
		}
	}
}

// leastPlane is the least length of axes that are transposed by tiles: below it, most of a tile
// would be idle.
const leastPlane = 8

// planeAxis returns the axis whose elements are contiguous in the source while the last axis is in
// the destination, or -1 if there is no such axis or it is too short.
func (b *boxCopy) planeAxis() int {
	last := b.axes[len(b.axes)-1]
	if last.to != 1 || last.from <= 1 || last.n < leastPlane {
		return -1
	}
	for i, x := range b.axes[:len(b.axes)-1] {
		if x.from == 1 && x.n >= leastPlane && x.n < 1<<31 && last.n < 1<<31 && b.tiles(x.n, last.n) < 1<<31 {
			return i
		}
	}
	return -1
}

const tileSide = 32

// tiles returns how many tiles cover all planes.
func (b *boxCopy) tiles(rows, cols int) int {
	planes := 1
	for _, x := range b.axes {
		planes *= x.n
	}
	return planes / rows / cols * ((rows + tileSide - 1) / tileSide) * ((cols + tileSide - 1) / tileSide)
}

// copyPlanes transposes the last axis and axis i.
func (b *boxCopy) copyPlanes(i int, dst []byte, toAt int, src []byte, fromAt int) error {
	row, col := b.axes[i], b.axes[len(b.axes)-1]
	tiles := b.tiles(row.n, col.n)
	a := b.plane.begin().In(src).Out(dst).Int(toAt).Int(fromAt).Int(tiles).Int(row.to).Int(col.from).
		Uint32(uint32(row.n)).Uint32(uint32(col.n)).Divider((col.n + tileSide - 1) / tileSide).
		Divider((row.n + tileSide - 1) / tileSide)
	b.wide = append(append(b.wide[:0], b.axes[:i]...), b.axes[i+1:len(b.axes)-1]...)
	b.pack(a, b.wide)
	return b.plane.run(driver.Line(min(tiles, 1<<16), 256))
}
