package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// ONNX Runtime's pair that leaves out padding: rows of a batch of sequences become a list without
// the padded ones, and back.

// flattenAndUnpad takes the rows of input 0, [d0, d1, d…], at the indices of input 1 into its first
// two axes taken as one. Output 1 lists d0 and d1.
type flattenAndUnpad struct {
	gatherRows
	shape []int
}

func newFlattenAndUnpad(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1); err != nil {
		return nil, err
	}
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	if p.Wants(1) && p.Out[1] != graph.Int64 {
		return nil, p.Errorf("output 1 has type %v, wanted int64", p.Out[1])
	}
	return &flattenAndUnpad{gatherRows: gatherRows{size: size}}, nil
}

// Workspace holds the offsets.
func (k *flattenAndUnpad) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run copies the rows.
func (k *flattenAndUnpad) Run(c *executor.Ctx) error {
	x, at := c.In(0), c.In(1)
	if x.Rank() < 2 || at.Rank() != 1 {
		return c.Errorf("inputs have shapes %v and %v, wanted rank 2 or more and rank 1", x.Shape, at.Shape)
	}
	rows := x.Shape[0] * x.Shape[1]
	k.outer, k.n, k.inner, k.stride = 1, at.Len(), product(x.Shape[2:]), x.Len()
	k.index.single(k.n, rows, k.inner)
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	k.shape = append(append(k.shape[:0], k.n), x.Shape[2:]...)
	if y := c.Out(0, k.shape...); y != nil {
		k.run(c, y.Data, x.Data)
	}
	if dims := c.Out(1, 2); dims != nil {
		movePutInt(dims, 0, x.Shape[0])
		movePutInt(dims, 1, x.Shape[1])
	}
	return nil
}

// padAndUnflatten puts the rows of input 0, [n, d…], at the indices of input 1 into zeros whose
// first two dims input 2 lists. If rows have the same index, the last one counts.
type padAndUnflatten struct {
	scatterRows
	moveFiller
	into operand.Unflattening
}

func newPadAndUnflatten(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1); err != nil {
		return nil, err
	}
	if _, err := moveSize(p, 0); err != nil {
		return nil, err
	}
	return &padAndUnflatten{scatterRows: scatterRows{dtype: p.DType(0), reduce: scatterReplace}}, nil
}

// Workspace holds the offsets.
func (k *padAndUnflatten) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run clears the output and copies the rows.
func (k *padAndUnflatten) Run(c *executor.Ctx) error {
	if err := k.into.Read(c, k.dtype); err != nil {
		return err
	}
	k.outer, k.n, k.inner, k.stride = 1, c.In(1).Len(), k.into.Inner, k.into.Rows*k.into.Inner
	k.index.single(k.n, k.into.Rows, k.inner)
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	if y := c.Out(0, k.into.Shape...); y != nil {
		k.zero(c, y.Data)
		k.scatterRows.run(c, y.Data, c.In(0).Data)
	}
	return nil
}
