package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// unpadder takes the rows of input 0, [d0, d1, d...], at the indices of input 1 into its first two
// axes taken as one. Output 1 lists d0 and d1.
type unpadder struct {
	gatherer
	dims [2]int64 // stays valid while it is copied
}

// newFlattenAndUnpad makes the kernel of FlattenAndUnpad.
func newFlattenAndUnpad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := newGatherer(d, p)
	return &unpadder{gatherer: g}, err
}

// Workspace holds the offsets.
func (k *unpadder) Workspace(in, _ [][]int) int { return offsetBytes(elements(in[1])) }

// Run copies the rows.
func (k *unpadder) Run(c *executor.Ctx) error {
	x, at := c.In(0), c.In(1)
	if x.Rank() < 2 || at.Rank() != 1 {
		return c.Errorf("inputs have shapes %v and %v, wanted rank 2 or more and rank 1", x.Shape, at.Shape)
	}
	inner := elements(x.Shape[2:])
	k.index.single(at.Len(), x.Shape[0]*x.Shape[1], inner)
	if err := k.index.run(c); err != nil {
		return err
	}
	k.out = append(append(k.out[:0], at.Len()), x.Shape[2:]...)
	if y := c.Out(0, k.out...); y != nil {
		if err := k.copyRows(c, y.Data, x.Data, 1, inner, x.Len()); err != nil {
			return err
		}
	}
	dims := c.Out(1, 2)
	if dims == nil {
		return nil
	}
	k.dims = [2]int64{int64(x.Shape[0]), int64(x.Shape[1])}
	return k.index.d.Memory().CopyIn(dims.Data, executor.Memory(k.dims[:]))
}

// unflattener puts the rows of input 0, [n, d...], at the indices of input 1 into zeros whose first
// two dims input 2 lists. The last one of rows with the same index counts.
type unflattener struct {
	scatterer
	dtype graph.DType
	into  operand.Unflattening
}

// newPadAndUnflatten makes the kernel of PadAndUnflatten.
func newPadAndUnflatten(d *Device, p *executor.Prep) (executor.Kernel, error) {
	s, err := newScatterer(d, p, 1, p.DType(0), reductions["none"])
	return &unflattener{scatterer: s, dtype: p.DType(0)}, err
}

// Workspace holds offsets and sorted rows.
func (k *unflattener) Workspace(in, _ [][]int) int { return scatterBytes(elements(in[1])) }

// Run clears the output and copies the rows.
func (k *unflattener) Run(c *executor.Ctx) error {
	if err := k.into.Read(c, k.dtype); err != nil {
		return err
	}
	k.outer, k.inner, k.stride = 1, k.into.Inner, k.into.Rows*k.into.Inner
	k.index.single(c.In(1).Len(), k.into.Rows, k.inner)
	if err := k.index.run(c); err != nil {
		return err
	}
	y := c.Out(0, k.into.Shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	if err := k.index.d.Memory().Fill(y.Data, 0); err != nil {
		return err
	}
	return k.scatter(c, y.Data, c.In(0).Data)
}
