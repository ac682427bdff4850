package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// reverser turns the first elements along the time axis around: in each sequence of the batch axis
// as many as input 1 says.
type reverser struct {
	boxCopy
	seq operand.Sequences
}

// newReverseSequence makes the kernel of ReverseSequence.
func newReverseSequence(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, operand.ElementBytes(p.DType(0)))
	if err != nil {
		return nil, err
	}
	seq, err := operand.NewSequences(p)
	return &reverser{b, seq}, err
}

// Run copies each sequence in two parts: what is turned around, and the rest.
func (k *reverser) Run(c *executor.Ctx) error {
	y, err := k.seq.Begin(c)
	if y == nil {
		return err
	}
	x := c.In(0)
	line := elements(x.Shape[2:])
	toBatch, toTime := k.seq.Times*line, line
	if k.seq.TimeFirst {
		toBatch, toTime = line, k.seq.Batch*line
	}
	for i, n := range k.seq.Lens {
		at := i * toBatch
		k.Begin()
		k.Add(n, toTime, -toTime)
		k.Add(line, 1, 1)
		if err := k.Copy(c, y.Data, at, x.Data, at+max(n-1, 0)*toTime); err != nil {
			return err
		}
		k.Begin()
		k.Add(k.seq.Times-n, toTime, toTime)
		k.Add(line, 1, 1)
		if err := k.Copy(c, y.Data, at+n*toTime, x.Data, at+n*toTime); err != nil {
			return err
		}
	}
	return nil
}

// cacheWriter writes an update into a cache along an axis.
type cacheWriter struct {
	boxCopy
	at operand.CacheUpdate
}

// newTensorScatter makes the kernel of TensorScatter.
func newTensorScatter(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, operand.ElementBytes(p.DType(0)))
	if err != nil {
		return nil, err
	}
	at, err := operand.NewCacheUpdate(p)
	return &cacheWriter{b, at}, err
}

// Run copies the cache, unless it is in place, and writes the update.
func (k *cacheWriter) Run(c *executor.Ctx) error {
	y, err := k.at.Begin(c)
	if y == nil {
		return err
	}
	x, u := c.In(0), c.In(1)
	if err := k.d.copyUnlessSame(y.Data, x.Data); err != nil {
		return err
	}
	long, update, outer, inner := k.at.Long, k.at.Update, k.at.Outer, k.at.Inner
	for i, at := range k.at.From {
		first := min(update, long-at) // the rest goes to the start
		to, from := i*outer*long*inner, i*outer*update*inner
		if err := k.part(c, y.Data, to+at*inner, u.Data, from, outer, first*inner, long*inner,
			update*inner); err != nil {
			return err
		}
		if err := k.part(c, y.Data, to, u.Data, from+first*inner, outer, (update-first)*inner, long*inner,
			update*inner); err != nil {
			return err
		}
	}
	return nil
}

// part copies n elements of each of outer rows.
func (k *cacheWriter) part(c *executor.Ctx, dst []byte, toAt int, src []byte, fromAt, outer, n, to, from int) error {
	k.Begin()
	k.Add(outer, to, from)
	k.Add(n, 1, 1)
	return k.Copy(c, dst, toAt, src, fromAt)
}

// copyUnlessSame copies, unless the run is in place.
func (d *Device) copyUnlessSame(dst, src []byte) error {
	if len(dst) == 0 || operand.SameMemory(dst, src) {
		return nil
	}
	return d.driver.Copy(d.stream, dst, src)
}

// trilu keeps the upper or lower triangle of the matrices in the last two axes, up to and with
// diagonal k (input 1).
type trilu struct {
	*launch
	operand.Triangle
}

// newTrilu makes the kernel of Trilu.
func newTrilu(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size := operand.ElementBytes(p.DType(0))
	if size == 0 {
		return nil, noTypes(p)
	}
	l, err := d.launch("movefill", "trilu_"+sizeName(size))
	return &trilu{l, operand.NewTriangle(p)}, err
}

// Run copies and clears.
func (k *trilu) Run(c *executor.Ctx) error {
	y, err := k.Begin(c)
	if y == nil {
		return err
	}
	x := c.In(0)
	a := k.begin()
	a.In(x.Data)
	a.Out(y.Data)
	a.Int(y.Len())
	a.Int(k.Diag)
	packAxes(a, 2, func(i int) int { return x.Shape[x.Rank()-1-i] })
	a.Uint32(flag(k.Upper))
	return k.line(y.Len(), 1)
}
