package cuda

import (
	"memopt/executor"
)

// reverser turns the first elements along the time axis around: in each sequence of the batch axis as many as input 1 says.
type reverser struct {
	boxCopy
	timeFirst bool
	lens      []int
}

// newReverseSequence makes the kernel of ReverseSequence.
func newReverseSequence(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
	return &reverser{boxCopy: b, timeFirst: p.Node.Int("time_axis", 0) == 0}, err
}

// Run copies each sequence in two parts: what is turned around, and the rest.
func (k *reverser) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 has shape %v, wanted rank 2 or more", x.Shape)
	}
	line := lengths(x.Shape[2:])
	batch, times, toBatch, toTime := x.Shape[0], x.Shape[1], x.Shape[1]*line, line
	if k.timeFirst {
		batch, times, toBatch, toTime = times, batch, line, x.Shape[1]*line
	}
	var err error
	if k.lens, err = hostInts(c, 1, k.lens[:0]); err != nil {
		return err
	}
	if len(k.lens) != batch {
		return c.Errorf("input 1 has %d lengths for %d sequences", len(k.lens), batch)
	}
	for _, n := range k.lens {
		if n < 0 || n > times {
			return c.Errorf("input 1 has the length %d; sequences are %d long", n, times)
		}
	}
	y := c.Out(0, x.Shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	for i, n := range k.lens {
		at := i * toBatch
		k.begin()
		k.add(n, toTime, -toTime)
		k.add(line, 1, 1)
		if err := k.copyBox(c, y.Data, at, x.Data, at+max(n-1, 0)*toTime); err != nil {
			return err
		}
		k.begin()
		k.add(times-n, toTime, toTime)
		k.add(line, 1, 1)
		if err := k.copyBox(c, y.Data, at+n*toTime, x.Data, at+n*toTime); err != nil {
			return err
		}
	}
	return nil
}

// cacheWriter writes an update into a cache along an axis: in each part of the batch axis, the first, from the place on that
// input 2 lists, or from 0. In mode circular it goes on at the start when it comes to the end.
type cacheWriter struct {
	boxCopy
	axis     int64
	circular bool
	from     []int
}

// newTensorScatter makes the kernel of TensorScatter.
func newTensorScatter(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
	return &cacheWriter{boxCopy: b, axis: p.Node.Int("axis", -2), circular: p.Node.Str("mode", "linear") == "circular"}, err
}

// Run copies the cache, unless it is in place, and writes the update.
func (k *cacheWriter) Run(c *executor.Ctx) error {
	x, u := c.In(0), c.In(1)
	axis, err := axisOf(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	if axis == 0 {
		return c.Errorf("axis %d is the batch axis", k.axis)
	}
	if u.Rank() != x.Rank() || !joined(u.Shape[:axis], x.Shape[:axis], nil) || !joined(u.Shape[axis+1:], x.Shape[axis+1:], nil) {
		return c.Errorf("input 1 has shape %v and input 0 has shape %v; they may differ in axis %d alone", u.Shape, x.Shape, axis)
	}
	long, update := x.Shape[axis], u.Shape[axis]
	if err := k.places(c, x.Shape[0], long, update); err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	if err := k.d.copyUnlessSame(y.Data, x.Data); err != nil {
		return err
	}
	outer, inner := lengths(x.Shape[1:axis]), lengths(x.Shape[axis+1:])
	for i, at := range k.from {
		first := min(update, long-at) // the rest goes to the start
		to, from := i*outer*long*inner, i*outer*update*inner
		if err := k.part(c, y.Data, to+at*inner, u.Data, from, outer, first*inner, long*inner, update*inner); err != nil {
			return err
		}
		if err := k.part(c, y.Data, to, u.Data, from+first*inner, outer, (update-first)*inner, long*inner, update*inner); err != nil {
			return err
		}
	}
	return nil
}

// part copies n elements of each of outer rows.
func (k *cacheWriter) part(c *executor.Ctx, dst []byte, toAt int, src []byte, fromAt, outer, n, to, from int) error {
	k.begin()
	k.add(outer, to, from)
	k.add(n, 1, 1)
	return k.copyBox(c, dst, toAt, src, fromAt)
}

// places reads where the update begins in each part of the batch.
func (k *cacheWriter) places(c *executor.Ctx, batch, long, update int) error {
	if update > long {
		return c.Errorf("input 1 has %d places and input 0 has %d", update, long)
	}
	k.from = k.from[:0]
	if c.In(2) == nil {
		for range batch {
			k.from = append(k.from, 0)
		}
		return nil
	}
	var err error
	if k.from, err = hostInts(c, 2, k.from); err != nil {
		return err
	}
	if len(k.from) != batch {
		return c.Errorf("input 2 has %d places for a batch of %d", len(k.from), batch)
	}
	for i, at := range k.from {
		if at < 0 || !k.circular && at > long-update {
			return c.Errorf("input 2 has the place %d for %d of %d places", at, update, long)
		}
		if long > 0 {
			k.from[i] = at % long
		}
	}
	return nil
}

// copyUnlessSame copies, unless the run is in place.
func (d *Device) copyUnlessSame(dst, src []byte) error {
	if len(dst) == 0 || sameMemory(dst, src) {
		return nil
	}
	return d.driver.Copy(d.stream, dst, src)
}
