package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// scatterRows combines rows of inner elements with rows of dst at its indexer's offsets, in
// each of outer parts of dst of stride elements. A row with a negative offset is skipped.
//
// Each element of dst takes its updates in the order of the indices, whichever thread it
// falls to: threads share the work by columns of the rows or by ranges of dst.
type scatterRows struct {
	index moveIndexer

	dst, src                []byte
	dtype                   graph.DType
	reduce                  scatterReduction
	outer, n, inner, stride int

	parts, width int  // a unit's share of a part of dst: width columns or elements
	columns      bool // columns
}

// run scatters. The indexer has run.
func (s *scatterRows) run(c *executor.Ctx, dst, src []byte) {
	if s.outer*s.n*s.inner == 0 {
		return
	}
	s.dst, s.src = dst, src
	s.columns, s.parts = true, 1
	threads := c.Threads()
	work := s.n * s.inner
	if s.outer < 2*threads && s.outer*work >= 16<<10 {
		s.parts = threads
	}
	if s.inner < 32*s.parts {
		s.columns = false
	}
	cut := s.stride
	if s.columns {
		cut = s.inner
	}
	// Whole cache lines, so that no two threads write to one.
	s.width = ((cut+s.parts-1)/s.parts + 63) &^ 63
	s.parts = (cut + s.width - 1) / s.width
	c.Parallel(s.outer*s.parts, 1+(16<<10)*s.parts/work, s)
}

// Range does the units lo..hi-1.
func (s *scatterRows) Range(lo, hi int) {
	if s.reduce == scatterReplace {
		scatterWords(s, lo, hi)
		return
	}
	switch s.dtype {
	case graph.Float32:
		scatterUnits[float32](s, lo, hi)
	case graph.Float64:
		scatterUnits[float64](s, lo, hi)
	case graph.Int8:
		scatterUnits[int8](s, lo, hi)
	case graph.Int16:
		scatterUnits[int16](s, lo, hi)
	case graph.Int32:
		scatterUnits[int32](s, lo, hi)
	case graph.Int64:
		scatterUnits[int64](s, lo, hi)
	case graph.Uint8:
		scatterUnits[uint8](s, lo, hi)
	case graph.Uint16:
		scatterUnits[uint16](s, lo, hi)
	case graph.Uint32:
		scatterUnits[uint32](s, lo, hi)
	case graph.Uint64:
		scatterUnits[uint64](s, lo, hi)
	}
}

// scatterWords is Range for updates that replace old elements: only the element size matters.
func scatterWords(s *scatterRows, lo, hi int) {
	switch s.dtype.Bits() {
	case 8:
		scatterUnits[uint8](s, lo, hi)
	case 16:
		scatterUnits[uint16](s, lo, hi)
	case 32:
		scatterUnits[uint32](s, lo, hi)
	case 64:
		scatterUnits[uint64](s, lo, hi)
	}
}

func scatterUnits[T scatterElem](s *scatterRows, lo, hi int) {
	dst, src := executor.Cast[T](s.dst), executor.Cast[T](s.src)
	for ; lo < hi; lo++ {
		part, from := lo/s.parts, lo%s.parts*s.width
		d := dst[part*s.stride : (part+1)*s.stride]
		u := src[part*s.n*s.inner : (part+1)*s.n*s.inner]
		switch {
		case s.columns:
			scatterColumns(s, d, u, from, min(from+s.width, s.inner))
		case s.inner == 1:
			scatterAt(s.reduce, d, s.index.offsets, u, int64(from), int64(min(from+s.width, s.stride)))
		default:
			scatterTargets(s, d, u, from, from+s.width)
		}
	}
}

// scatterColumns does the columns a..b-1 of all rows.
func scatterColumns[T scatterElem](s *scatterRows, d, u []T, a, b int) {
	for r, o := range s.index.offsets {
		if o >= 0 {
			scatterCombine(s.reduce, d[int(o)+a:int(o)+b], u[r*s.inner+a:r*s.inner+b])
		}
	}
}

// scatterTargets does the rows that begin in d[a:b].
func scatterTargets[T scatterElem](s *scatterRows, d, u []T, a, b int) {
	for r, o := range s.index.offsets {
		if o := int(o); a <= o && o < b && o >= 0 {
			scatterCombine(s.reduce, d[o:o+s.inner], u[r*s.inner:(r+1)*s.inner])
		}
	}
}

// wholeCopy is for results that begin as a copy of an input.
type wholeCopy struct{ mover }

// copyUnlessSame copies src to dst, which may be the same memory.
func (w *wholeCopy) copyUnlessSame(c *executor.Ctx, dst, src []byte) error {
	if operand.SameMemory(dst, src) {
		return nil
	}
	w.size = 1
	w.Begin()
	w.Add(len(src), 1, 1)
	return w.Copy(c, dst, 0, src, 0)
}

// scatterNDKernel is a copy of the data that combines slices with the updates; tuples, the last
// axis of the indices, name the slices. Updates of one slice are combined in the order of the
// indices. https://onnx.ai/onnx/operators/onnx__ScatterND.html
type scatterNDKernel struct {
	wholeCopy
	scatterRows
}

func newScatterND(p *executor.Prep) (executor.Kernel, error) {
	if p.Node.Str("reduction", "none") != "none" && isHalf(p.DType(0)) {
		return makeHalfScatterND(p)
	}
	return makeScatterND(p)
}

func makeScatterND(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1, 2); err != nil {
		return nil, err
	}
	if _, err := moveSize(p, 0, 2); err != nil {
		return nil, err
	}
	r, err := readScatterReduction(p)
	if err != nil {
		return nil, err
	}
	return &scatterNDKernel{scatterRows: scatterRows{dtype: p.DType(0), reduce: r}}, nil
}

// Workspace holds the offsets.
func (k *scatterNDKernel) Workspace(in, _ [][]int) int { return moveTupleBytes(in[1]) }

// Run copies the data, unless it is in place, and scatters.
func (k *scatterNDKernel) Run(c *executor.Ctx) error {
	y, u, err := k.prepare(c)
	if y == nil || err != nil {
		return err
	}
	k.scatterRows.run(c, y.Data, u.Data)
	return nil
}

// prepare finds the slices and copies the data, unless it is in place. It returns the result, nil where that is not
// wanted, and the updates.
func (k *scatterNDKernel) prepare(c *executor.Ctx) (y, u *executor.Tensor, err error) {
	x := c.In(0)
	u = c.In(2)
	depth, err := k.index.tuples(c, x.Shape, 1, 0)
	if err != nil {
		return nil, nil, err
	}
	rest, err := operand.CheckSlices(c, 2, x.Shape, 0, depth)
	if err != nil {
		return nil, nil, err
	}
	if err := k.index.run(c, 1); err != nil {
		return nil, nil, err
	}
	if y = c.Out(0, x.Shape...); y == nil {
		return nil, nil, nil
	}
	if err := k.copyUnlessSame(c, y.Data, x.Data); err != nil {
		return nil, nil, err
	}
	k.outer, k.n, k.inner, k.stride = 1, k.index.Count, product(rest), x.Len()
	return y, u, nil
}

// scatterElementsKernel is a copy of the data that combines single elements with updates; updates
// of one element are combined in the order of the indices. Scatter is its old name.
// https://onnx.ai/onnx/operators/onnx__ScatterElements.html
type scatterElementsKernel struct {
	wholeCopy
	elementLines
	axis int64
}

func newScatterElements(p *executor.Prep) (executor.Kernel, error) {
	if p.Node.Str("reduction", "none") != "none" {
		return widened(makeScatterElements)(p)
	}
	return makeScatterElements(p)
}

func makeScatterElements(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1, 2); err != nil {
		return nil, err
	}
	size, err := moveSize(p, 0, 2)
	if err != nil {
		return nil, err
	}
	r, err := readScatterReduction(p)
	if err != nil {
		return nil, err
	}
	return &scatterElementsKernel{axis: p.Node.Int("axis", 0),
		elementLines: elementLines{size: size, dtype: p.DType(0), reduce: r}}, nil
}

// Workspace holds the offsets.
func (k *scatterElementsKernel) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run copies the data, unless it is in place, and scatters.
func (k *scatterElementsKernel) Run(c *executor.Ctx) error {
	if err := operand.Like(c, 2, 1); err != nil {
		return err
	}
	x, u := c.In(0), c.In(2)
	if err := k.prepare(c, 1, x.Shape, k.axis); err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	if err := k.copyUnlessSame(c, y.Data, x.Data); err != nil {
		return err
	}
	k.elementLines.run(c, y.Data, u.Data)
	return nil
}
