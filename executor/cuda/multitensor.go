package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/graph"
)

// The share of many tensors in a launch: MANY and CHUNK of kernels/many.cu.
const (
	manyTensors = 64
	manyChunk   = 16384
)

// manyStarts lists the first chunk of each tensor of a launch, and at last their number.
type manyStarts [manyTensors + 1]int32

// set counts the chunks of inputs from lo on, and returns the input after the last one that the
// launch takes.
func (s *manyStarts) set(c *executor.Ctx, lo int) int {
	hi := min(lo+manyTensors, c.Inputs())
	s[0] = 0
	for i := lo; i < hi; i++ {
		s[i-lo+1] = s[i-lo] + int32(chunksOf(c.In(i).Len()))
	}
	return hi
}

// chunksOf returns into how many chunks n elements are cut.
func chunksOf(n int) int { return (n + manyChunk - 1) / manyChunk }

// pack packs the common part of many_args.
func (s *manyStarts) pack(a *driver.Args, c *executor.Ctx, lo, hi int) {
	for i := range manyTensors {
		if lo+i < hi {
			a.In(c.In(lo + i).Data)
		} else {
			a.In(nil)
		}
	}
	for i := range manyTensors {
		n := 0
		if lo+i < hi {
			n = c.In(lo + i).Len()
		}
		a.Int(n)
	}
	for i := range s {
		a.Int32(s[min(i, hi-lo)])
	}
	for i := range manyTensors {
		t := uint32(0)
		if lo+i < hi {
			t = floatType(c.In(lo + i).DType)
		}
		a.Uint32(t)
	}
	a.Int32(int32(hi - lo))
}

// floatType is statType, with the number of float64 in kernels/many.cu.
func floatType(t graph.DType) uint32 {
	if t == graph.Float64 {
		return 3
	}
	return statType(t)
}

// someFloats makes sure that all operands are given and are floats of some type.
func someFloats(p *executor.Prep, types []graph.DType) error {
	for i, t := range types {
		switch {
		case t == graph.Undefined:
			return p.Errorf("input %d is left out; it is required", i)
		case !isFloat(t) && t != graph.Float64:
			return noTypes(p)
		}
	}
	return nil
}

// allFinite computes IsAllFinite.
type allFinite struct {
	*launch
	infinite, nan bool // the kinds of numbers that count
	starts        manyStarts
}

// newAllFinite makes the kernel of IsAllFinite.
func newAllFinite(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if err := someFloats(p, p.In); err != nil {
		return nil, err
	}
	l, err := d.launch("many", "all_finite")
	return &allFinite{launch: l, infinite: p.Node.Int("isnan_only", 0) == 0, nan: p.Node.Int("isinf_only", 0) == 0}, err
}

// Run looks at all elements.
func (k *allFinite) Run(c *executor.Ctx) error {
	y := c.Out(0)
	if y == nil {
		return nil
	}
	if err := k.d.Memory().Fill(y.Data, 1); err != nil {
		return err
	}
	for lo, hi := 0, 0; lo < c.Inputs(); lo = hi {
		hi = k.starts.set(c, lo)
		a := k.begin()
		k.starts.pack(a, c, lo, hi)
		a.Uint32(flag(k.infinite)).Uint32(flag(k.nan)).Out(y.Data).Out(nil)
		if err := k.rows(int(k.starts[hi-lo]), 256, 0); err != nil {
			return err
		}
	}
	return nil
}

// allL2 computes ReduceAllL2.
type allL2 struct {
	squares, root *launch
	starts        manyStarts
}

// newReduceAllL2 makes the kernel of ReduceAllL2.
func newReduceAllL2(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if err := someFloats(p, p.In); err != nil {
		return nil, err
	}
	if len(p.Out) > 0 && !isFloat(p.Out[0]) && p.Out[0] != graph.Float64 {
		return nil, noTypes(p)
	}
	squares, err := d.launch("many", "squares")
	if err != nil {
		return nil, err
	}
	root, err := d.launch("many", "root_any")
	return &allL2{squares: squares, root: root}, err
}

// Workspace counts the sums of chunks.
func (k *allL2) Workspace(in, _ [][]int) int {
	n := 0
	for _, s := range in {
		n += chunksOf(elements(s))
	}
	return executor.RoundUp(8 * n)
}

// Run adds up the squares of chunks, and then those sums.
func (k *allL2) Run(c *executor.Ctx) error {
	total := 0
	for i := range c.Inputs() {
		total += chunksOf(c.In(i).Len())
	}
	y := c.Out(0)
	if y == nil {
		return nil
	}
	sums, at := c.Scratch(8*total), 0
	for lo, hi := 0, 0; lo < c.Inputs(); lo = hi {
		hi = k.starts.set(c, lo)
		n := int(k.starts[hi-lo])
		a := k.squares.begin()
		k.starts.pack(a, c, lo, hi)
		a.Uint32(0).Uint32(0).Out(nil).Out(sums[8*at : 8*(at+n)])
		if err := k.squares.rows(n, 256, 0); err != nil {
			return err
		}
		at += n
	}
	k.root.begin().In(sums).Out(y.Data).Int(total).Uint32(floatType(y.DType))
	return k.root.run(driver.Line(1, 256))
}
