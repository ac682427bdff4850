package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// gatherND copies the slices that tuples, the last axis of the indices, name.
type gatherND struct {
	gatherer
	batch int64
}

// newGatherND makes the kernel of GatherND.
func newGatherND(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := newGatherer(d, p)
	return &gatherND{g, p.Node.Int("batch_dims", 0)}, err
}

// Workspace holds the offsets.
func (k *gatherND) Workspace(in, _ [][]int) int { return offsetBytes(operand.TupleCount(in[1])) }

// Run copies.
func (k *gatherND) Run(c *executor.Ctx) error {
	x, at := c.In(0), c.In(1)
	depth, err := k.index.tuples(c, x.Shape, k.batch)
	if err != nil {
		return err
	}
	if err := k.index.run(c); err != nil {
		return err
	}
	rest := x.Shape[int(k.batch)+depth:]
	k.out = append(append(k.out[:0], at.Shape[:at.Rank()-1]...), rest...)
	y := c.Out(0, k.out...)
	if y == nil {
		return nil
	}
	return k.copyRows(c, y.Data, x.Data, 1, elements(rest), x.Len())
}

// gatherElements picks one element per index.
type gatherElements struct {
	gatherer
	axis int64
}

// newGatherElements makes the kernel of GatherElements.
func newGatherElements(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := newGatherer(d, p)
	return &gatherElements{g, p.Node.Int("axis", 0)}, err
}

// Workspace holds the offsets.
func (k *gatherElements) Workspace(in, _ [][]int) int { return offsetBytes(elements(in[1])) }

// Run picks.
func (k *gatherElements) Run(c *executor.Ctx) error {
	x, at := c.In(0), c.In(1)
	if err := k.index.elements(c, x.Shape, k.axis); err != nil {
		return err
	}
	if err := k.index.run(c); err != nil {
		return err
	}
	y := c.Out(0, at.Shape...)
	if y == nil {
		return nil
	}
	return k.copyRows(c, y.Data, x.Data, 1, 1, x.Len())
}
