package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// gatherRows copies rows: from each of outer parts of the data, n rows of inner elements at its
// indexer's offsets.
type gatherRows struct {
	index moveIndexer

	dst, src                []byte
	size                    int
	outer, n, inner, stride int // stride: elements of a part of the data
	blocks, width           int // a row is cut into blocks of width elements
}

// run copies. The indexer has run.
func (g *gatherRows) run(c *executor.Ctx, dst, src []byte) {
	if g.outer*g.n*g.inner == 0 {
		return
	}
	g.dst, g.src = dst, src
	g.width = min(g.inner, (64<<10)/g.size)
	g.blocks = (g.inner + g.width - 1) / g.width
	c.Parallel(g.outer*g.n*g.blocks, 1+(16<<10)/g.width, g)
}

// Range copies blocks lo..hi-1.
func (g *gatherRows) Range(lo, hi int) {
	if g.inner == 1 {
		g.elements(lo, hi)
		return
	}
	block, row := lo%g.blocks, lo/g.blocks
	r, part := row%g.n, row/g.n
	for range hi - lo {
		from := part*g.stride + int(g.index.offsets[r]) + block*g.width
		to := (part*g.n+r)*g.inner + block*g.width
		w := min(g.width, g.inner-block*g.width)
		copy(g.dst[to*g.size:(to+w)*g.size], g.src[from*g.size:(from+w)*g.size])
		if block++; block == g.blocks {
			block = 0
			if r++; r == g.n {
				r = 0
				part++
			}
		}
	}
}

// elements is Range for rows of one element.
func (g *gatherRows) elements(lo, hi int) {
	switch g.size {
	case 1:
		gatherElements[uint8](g, lo, hi)
	case 2:
		gatherElements[uint16](g, lo, hi)
	case 4:
		gatherElements[uint32](g, lo, hi)
	case 8:
		gatherElements[uint64](g, lo, hi)
	}
}

func gatherElements[T moveWord](g *gatherRows, lo, hi int) {
	dst, src := executor.Cast[T](g.dst), executor.Cast[T](g.src)
	for lo < hi {
		part, r := lo/g.n, lo%g.n
		run := min(g.n-r, hi-lo)
		from := src[part*g.stride : (part+1)*g.stride]
		at := g.index.offsets[r:][:run]
		for i, o := range at {
			dst[lo+i] = from[o]
		}
		lo += run
	}
}

// gatherKernel replaces an axis of the data by the shape of the indices. For example, axis 1 of [2,
// 9, 4] with indices [3, 5] gives [2, 3, 5, 4]. https://onnx.ai/onnx/operators/onnx__Gather.html
type gatherKernel struct {
	gatherRows
	at operand.Gathering
}

func newGather(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1); err != nil {
		return nil, err
	}
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &gatherKernel{gatherRows{size: size}, operand.NewGathering(p)}, nil
}

// newShrunkenGather: a Gather by a list of at most as many indices as the axis is long.
func newShrunkenGather(p *executor.Prep) (executor.Kernel, error) {
	k, err := newGather(p)
	if err != nil {
		return nil, err
	}
	k.(*gatherKernel).at.Shrunk = true
	return k, nil
}

// Workspace holds the offsets.
func (k *gatherKernel) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run copies the slices that the indices name.
func (k *gatherKernel) Run(c *executor.Ctx) error {
	if err := k.at.Read(c); err != nil {
		return err
	}
	x, axis := c.In(0), k.at.Axis
	k.inner = product(x.Shape[axis+1:])
	k.stride = x.Shape[axis] * k.inner
	k.outer, k.n = product(x.Shape[:axis]), c.In(1).Len()
	k.index.single(k.n, x.Shape[axis], k.inner)
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	if y := c.Out(0, k.at.Shape...); y != nil {
		k.run(c, y.Data, x.Data)
	}
	return nil
}

// gatherNDKernel copies the slices that tuples, the last axis of the indices, name. The
// first batch_dims axes are shared by data and indices.
// https://onnx.ai/onnx/operators/onnx__GatherND.html
type gatherNDKernel struct {
	gatherRows
	batch int64
	shape []int
}

func newGatherND(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1); err != nil {
		return nil, err
	}
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &gatherNDKernel{gatherRows: gatherRows{size: size}, batch: p.Node.Int("batch_dims", 0)}, nil
}

// Workspace holds the offsets.
func (k *gatherNDKernel) Workspace(in, _ [][]int) int { return moveTupleBytes(in[1]) }

// moveTupleBytes is the workspace for the offsets of the tuples in an index tensor of a shape.
func moveTupleBytes(shape []int) int { return moveIndexBytes(operand.TupleCount(shape)) }

// Run copies.
func (k *gatherNDKernel) Run(c *executor.Ctx) error {
	x, at := c.In(0), c.In(1)
	depth, err := k.index.tuples(c, x.Shape, 1, k.batch)
	if err != nil {
		return err
	}
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	batch := int(k.batch)
	k.outer, k.n, k.stride = 1, k.index.Count, x.Len()
	k.inner = product(x.Shape[batch+depth:])
	k.shape = append(append(k.shape[:0], at.Shape[:at.Rank()-1]...), x.Shape[batch+depth:]...)
	if y := c.Out(0, k.shape...); y != nil {
		k.run(c, y.Data, x.Data)
	}
	return nil
}

// tuples prepares for the tuples in input i, which address a shape's axes after the batch
// axes. It returns how many axes they address.
func (x *moveIndexer) tuples(c *executor.Ctx, shape []int, i int, batch int64) (depth int, err error) {
	if depth, err = x.Tuples(c, i, shape, batch); err != nil {
		return 0, err
	}
	lead := c.In(i).Shape
	x.each, x.batch = product(lead[batch:len(lead)-1]), 0
	if batch > 0 {
		x.batch = product(shape[batch:])
	}
	return depth, nil
}

// gatherElementsKernel: the result has the shape of the indices.
// https://onnx.ai/onnx/operators/onnx__GatherElements.html
type gatherElementsKernel struct {
	elementLines
	axis int64
}

func newGatherElements(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1); err != nil {
		return nil, err
	}
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &gatherElementsKernel{elementLines{size: size, gather: true}, p.Node.Int("axis", 0)}, nil
}

// Workspace holds the offsets.
func (k *gatherElementsKernel) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run picks the elements.
func (k *gatherElementsKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.prepare(c, 1, x.Shape, k.axis); err != nil {
		return err
	}
	if y := c.Out(0, c.In(1).Shape...); y != nil {
		k.run(c, x.Data, y.Data)
	}
	return nil
}
