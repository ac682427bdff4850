package cuda

import (
	"fmt"
	"math/bits"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/graph"
)

// indexer turns tuples of indices in device memory into offsets there: tuple i of depth indices becomes the sum of
// index*step, plus the sum of place*stride over i's places in axes.
type indexer struct {
	*launch
	slot        int   // of the input with the indices
	count       int   // tuples
	dims, steps []int // per element of a tuple: length of its axis, and step in the data
	axes        []boxAxis
	strict      uint32 // 1: negative indices are outside

	offsets []byte // after run
	wrong   outside
}

func newIndexer(d *Device, p *executor.Prep, slot int) (indexer, error) {
	t := p.DType(slot)
	if t != graph.Int64 && t != graph.Int32 {
		return indexer{}, noTypes(p)
	}
	l, err := d.launch("gather", "offsets_"+suffix(t))
	return indexer{launch: l, slot: slot, wrong: outside{d: d}}, err
}

// offsetBytes is the workspace that an indexer takes for n tuples.
func offsetBytes(n int) int { return executor.RoundUp(8*max(n, 0)) + executor.RoundUp(outsideBytes) }

// single prepares for count tuples of one index into an axis.
func (x *indexer) single(count, n, step int) {
	x.count, x.axes = count, x.axes[:0]
	x.dims, x.steps = append(x.dims[:0], n), append(x.steps[:0], step)
}

// tuples prepares for tuples that address a shape's axes after the batch axes. It returns how many they address.
func (x *indexer) tuples(c *executor.Ctx, shape []int, batch int64) (depth int, err error) {
	at := c.In(x.slot)
	if at.Rank() == 0 || len(shape) == 0 {
		return 0, c.Errorf("input %d is %v for data of shape %v, wanted rank 1 or more of both", x.slot, at, shape)
	}
	if batch < 0 || batch >= int64(min(at.Rank(), len(shape))) {
		return 0, c.Errorf("attribute batch_dims is %d; input %d has shape %v and the data %v", batch, x.slot, at.Shape, shape)
	}
	b, lead := int(batch), at.Shape[:at.Rank()-1]
	depth = at.Shape[at.Rank()-1]
	if depth > len(shape)-b {
		return 0, c.Errorf("input %d has shape %v, whose last dim addresses more axes than the data has: %v", x.slot, at.Shape, shape[b:])
	}
	for j, d := range lead[:b] {
		if d != shape[j] {
			return 0, c.Errorf("input %d has shape %v and the data %v; the first %d dims must be equal", x.slot, at.Shape, shape, b)
		}
	}
	x.count, x.dims, x.steps, x.axes = lengths(lead), append(x.dims[:0], shape[b:b+depth]...), x.steps[:0], x.axes[:0]
	for j := range depth {
		x.steps = append(x.steps, lengths(shape[b+j+1:]))
	}
	if b > 0 && x.count > 0 {
		x.axes = append(x.axes, boxAxis{n: lengths(lead[:b]), from: lengths(shape[b:])}, boxAxis{n: lengths(lead[b:])})
	}
	return depth, nil
}

// elements prepares for one index into an axis of data of a shape per element of the indices, whose other places count too.
func (x *indexer) elements(c *executor.Ctx, shape []int, at int64) error {
	axis, err := axisOf(c, at, len(shape))
	if err != nil {
		return err
	}
	idx := c.In(x.slot)
	if idx.Rank() != len(shape) {
		return c.Errorf("input %d has shape %v, wanted rank %d as the data", x.slot, idx.Shape, len(shape))
	}
	x.axes = x.axes[:0]
	step, here := lengths(shape), 0
	for i, d := range shape {
		step /= max(d, 1)
		n, from := idx.Shape[i], step
		if i == axis {
			here, from = step, 0
		} else if n > d {
			return c.Errorf("input %d has shape %v, which is longer than the data's, %v, in axis %d", x.slot, idx.Shape, shape, i)
		}
		last := len(x.axes) - 1
		if last >= 0 && x.axes[last].from == n*from {
			x.axes[last].n *= n
			x.axes[last].from = from
			continue
		}
		x.axes = append(x.axes, boxAxis{n: n, from: from})
	}
	x.count = idx.Len()
	x.dims, x.steps = append(x.dims[:0], shape[axis]), append(x.steps[:0], here)
	return nil
}

// run computes the offsets in workspace, and waits, unless the step is captured.
func (x *indexer) run(c *executor.Ctx) error {
	if len(x.dims) > moveDims {
		return c.Errorf("indices into %d axes; the CUDA kernels have no more than %d", len(x.dims), moveDims)
	}
	at := c.In(x.slot)
	x.offsets = c.Scratch(8 * x.count)
	if x.count == 0 {
		return nil
	}
	if err := fits(c, x.axes); err != nil {
		return err
	}
	bad, err := x.wrong.begin(c, x)
	if err != nil {
		return err
	}
	a := x.begin()
	a.In(at.Data)
	a.Out(x.offsets)
	a.Out(bad)
	a.Int(x.count)
	a.Int32(int32(len(x.dims)))
	a.Uint32(x.strict)
	n := len(x.axes)
	packAxes(a, n, func(i int) int { return x.axes[n-1-i].n })
	packInts(a, n, func(i int) int { return x.axes[n-1-i].from })
	packInts(a, len(x.dims), func(i int) int { return x.dims[i] })
	packInts(a, len(x.dims), func(i int) int { return x.steps[i] })
	if err := x.line(x.count, 1); err != nil {
		return err
	}
	return x.wrong.end(c, at, bad, x)
}

// describe makes the error of an index that is outside its axis.
func (x *indexer) describe(place int, value string) error {
	n := x.dims[place%len(x.dims)]
	if value == "" {
		return fmt.Errorf("input %d, index number %d: is outside an axis of length %d", x.slot, place, n)
	}
	return fmt.Errorf("input %d has the index %s, which is outside an axis of length %d", x.slot, value, n)
}

// gatherer copies rows: of each part of the data, as many rows of inner elements as there are offsets.
type gatherer struct {
	index indexer
	bytes int
	rows  [5]*launch // by log2 of the word
	out   []int
}

func newGatherer(d *Device, p *executor.Prep) (gatherer, error) {
	g := gatherer{bytes: elementBytes(p.DType(0))}
	if g.bytes == 0 {
		return g, noTypes(p)
	}
	var err error
	if g.index, err = newIndexer(d, p, 1); err != nil {
		return g, err
	}
	for i := range g.rows {
		if 1<<i >= g.bytes {
			if g.rows[i], err = d.launch("gather", "gather_"+sizeName(1<<i)); err != nil {
				return g, err
			}
		}
	}
	return g, nil
}

// copyRows copies; the indexer has run. Parts of the data have stride elements.
func (g *gatherer) copyRows(c *executor.Ctx, dst, src []byte, outer, inner, stride int) error {
	n := outer * g.index.count * inner
	if n == 0 {
		return nil
	}
	if g.index.count >= 1<<31 || inner >= 1<<31 {
		return c.Errorf("gathers %d rows of %d elements; the CUDA kernel takes numbers below 2^31", g.index.count, inner)
	}
	least := bits.Len(uint(g.bytes)) - 1
	word := least
	// Offsets are multiples of inner, but for elements: then inner is 1.
	all := inner*g.bytes | int(driver.Address(dst)) | int(driver.Address(src)) | 16
	for inner > 1 && 2<<word <= all&-all {
		word++
	}
	times := (1 << word) / g.bytes
	k := g.rows[word]
	a := k.begin()
	a.In(src)
	a.In(g.index.offsets)
	a.Out(dst)
	a.Int(n / times)
	a.Int(stride / times)
	a.Uint32(uint32(word - least))
	packAxes(a, 2, func(i int) int {
		if i == 0 {
			return inner / times
		}
		return g.index.count
	})
	return k.line(n/times, 1)
}

// gather replaces an axis of the data by the shape of the indices.
type gather struct {
	gatherer
	axis   int64
	shrunk bool
}

// newGather makes the kernels of Gather and ShrunkenGather, whose indices are a list of at most as many as the axis is long.
func newGather(shrunk bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		g, err := newGatherer(d, p)
		return &gather{g, p.Node.Int("axis", 0), shrunk}, err
	}
}

// Workspace holds the offsets.
func (k *gather) Workspace(in, _ [][]int) int { return offsetBytes(lengths(in[1])) }

// Run copies the slices that the indices name.
func (k *gather) Run(c *executor.Ctx) error {
	x, at := c.In(0), c.In(1)
	axis, err := axisOf(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	if k.shrunk && (at.Rank() != 1 || at.Shape[0] > x.Shape[axis]) {
		return c.Errorf("input 1 has shape %v, wanted a list of at most %d indices", at.Shape, x.Shape[axis])
	}
	inner := lengths(x.Shape[axis+1:])
	k.index.single(at.Len(), x.Shape[axis], inner)
	if err := k.index.run(c); err != nil {
		return err
	}
	k.out = append(append(append(k.out[:0], x.Shape[:axis]...), at.Shape...), x.Shape[axis+1:]...)
	y := c.Out(0, k.out...)
	if y == nil {
		return nil
	}
	return k.copyRows(c, y.Data, x.Data, lengths(x.Shape[:axis]), inner, x.Shape[axis]*inner)
}
