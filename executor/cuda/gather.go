package cuda

import (
	"fmt"
	"math/bits"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/operand"
	"memopt/graph"
)

// indexer turns tuples of indices in device memory into offsets there: tuple i of depth indices
// becomes the sum of index*step, plus the sum of place*stride over i's places in axes.
type indexer struct {
	*launch
	operand.Index
	slot   int // of the input with the indices
	axes   []boxAxis
	strict uint32 // 1: negative indices are outside

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
	x.axes = x.axes[:0]
	x.Single(count, n, step)
}

// tuples prepares for tuples that address a shape's axes after the batch axes. It returns how many
// they address.
func (x *indexer) tuples(c *executor.Ctx, shape []int, batch int64) (depth int, err error) {
	if depth, err = x.Tuples(c, x.slot, shape, batch); err != nil {
		return 0, err
	}
	x.axes = x.axes[:0]
	if b, at := int(batch), c.In(x.slot).Shape; b > 0 && x.Count > 0 {
		x.axes = append(x.axes, boxAxis{n: elements(at[:b]), from: elements(shape[b:])},
			boxAxis{n: elements(at[b : len(at)-1])})
	}
	return depth, nil
}

// elements prepares for one index into an axis of data of a shape per element of the indices, whose
// other places count too.
func (x *indexer) elements(c *executor.Ctx, shape []int, at int64) error {
	axis, err := operand.Axis(c, at, len(shape))
	if err != nil {
		return err
	}
	idx := c.In(x.slot)
	if idx.Rank() != len(shape) {
		return c.Errorf("input %d has shape %v, wanted rank %d as the data", x.slot, idx.Shape, len(shape))
	}
	x.axes = x.axes[:0]
	step, here := elements(shape), 0
	for i, d := range shape {
		step /= max(d, 1)
		n, from := idx.Shape[i], step
		if i == axis {
			here, from = step, 0
		} else if n > d {
			return c.Errorf("input %d has shape %v, which is longer than the data's, %v, in axis %d",
				x.slot, idx.Shape, shape, i)
		}
		last := len(x.axes) - 1
		if last >= 0 && x.axes[last].from == n*from {
			x.axes[last].n *= n
			x.axes[last].from = from
			continue
		}
		x.axes = append(x.axes, boxAxis{n: n, from: from})
	}
	x.Single(idx.Len(), shape[axis], here)
	return nil
}

// run computes the offsets in workspace, and waits, unless the step is captured.
func (x *indexer) run(c *executor.Ctx) error {
	if len(x.Dims) > moveDims {
		return c.Errorf("indices into %d axes; the CUDA kernels have no more than %d", len(x.Dims), moveDims)
	}
	at := c.In(x.slot)
	x.offsets = c.Scratch(8 * x.Count)
	if x.Count == 0 {
		return nil
	}
	if err := fits(c, x.axes); err != nil {
		return err
	}
	bad, err := x.wrong.begin(c, x)
	if err != nil {
		return err
	}
	a := x.begin().In(at.Data).Out(x.offsets).Out(bad).Int(x.Count).Int32(int32(len(x.Dims))).
		Uint32(x.strict)
	n := len(x.axes)
	packAxes(a, n, func(i int) int { return x.axes[n-1-i].n })
	packInts(a, n, func(i int) int { return x.axes[n-1-i].from })
	packInts(a, len(x.Dims), func(i int) int { return x.Dims[i] })
	packInts(a, len(x.Dims), func(i int) int { return x.Steps[i] })
	if err := x.line(x.Count, 1); err != nil {
		return err
	}
	return x.wrong.end(c, at, bad, x)
}

// describe makes the error of an index that is outside its axis.
func (x *indexer) describe(place int, value string) error {
	n := x.Dims[place%len(x.Dims)]
	if value == "" {
		return fmt.Errorf("input %d, index number %d: is outside an axis of length %d", x.slot, place, n)
	}
	return fmt.Errorf("input %d has the index %s, which is outside an axis of length %d", x.slot, value, n)
}

// gatherer copies rows: of each part of the data, as many rows of inner elements as there are
// offsets.
type gatherer struct {
	index indexer
	bytes int
	rows  [5]*launch // by log2 of the word
	out   []int
}

func newGatherer(d *Device, p *executor.Prep) (gatherer, error) {
	g := gatherer{bytes: operand.ElementBytes(p.DType(0))}
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
	n := outer * g.index.Count * inner
	if n == 0 {
		return nil
	}
	if g.index.Count >= 1<<31 || inner >= 1<<31 {
		return c.Errorf("gathers %d rows of %d elements; the CUDA kernel takes numbers below 2^31",
			g.index.Count, inner)
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
	a := k.begin().In(src).In(g.index.offsets).Out(dst).Int(n / times).Int(stride / times).
		Uint32(uint32(word - least))
	packAxes(a, 2, func(i int) int {
		if i == 0 {
			return inner / times
		}
		return g.index.Count
	})
	return k.line(n/times, 1)
}

// gather replaces an axis of the data by the shape of the indices.
type gather struct {
	gatherer
	at operand.Gathering
}

// newGather makes the kernels of Gather and ShrunkenGather, whose indices are a list of at most as
// many as the axis is long.
func newGather(shrunk bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		g, err := newGatherer(d, p)
		at := operand.NewGathering(p)
		at.Shrunk = shrunk
		return &gather{g, at}, err
	}
}

// Workspace holds the offsets.
func (k *gather) Workspace(in, _ [][]int) int { return offsetBytes(elements(in[1])) }

// Run copies the slices that the indices name.
func (k *gather) Run(c *executor.Ctx) error {
	if err := k.at.Read(c); err != nil {
		return err
	}
	x, axis := c.In(0), k.at.Axis
	inner := elements(x.Shape[axis+1:])
	k.index.single(c.In(1).Len(), x.Shape[axis], inner)
	if err := k.index.run(c); err != nil {
		return err
	}
	y := c.Out(0, k.at.Shape...)
	if y == nil {
		return nil
	}
	return k.copyRows(c, y.Data, x.Data, elements(x.Shape[:axis]), inner, x.Shape[axis]*inner)
}
