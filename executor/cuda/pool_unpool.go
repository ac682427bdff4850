package cuda

import (
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/operand"
	"memopt/graph"
)

// maxUnpool is MaxUnpool: each place of the output is marked with the last element that names it,
// and takes that. The device says which index is outside its plane; a run waits for that, unless
// its step is captured.
type maxUnpool struct {
	mark, take *launch
	faults     outside
	geometry   *cpu.UnpoolGeometry
	own        int // elements of the planes that indices count in
}

// newMaxUnpool makes the kernel of MaxUnpool.
func newMaxUnpool(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size := operand.ElementBytes(p.DType(0))
	if size == 0 || p.DType(1) != graph.Int64 {
		return nil, noTypes(p)
	}
	g, err := cpu.NewUnpoolGeometry(p)
	if err != nil {
		return nil, err
	}
	k := &maxUnpool{geometry: g}
	k.faults = outside{d: d}
	if k.mark, err = d.launch("deform", "unpool_mark"); err != nil {
		return nil, err
	}
	k.take, err = d.launch("deform", "unpool_"+sizeName(size))
	return k, err
}

// Workspace counts marks.
func (k *maxUnpool) Workspace(_, out [][]int) int {
	return executor.RoundUp(4*elements(out[0])) + executor.RoundUp(outsideBytes)
}

// Run checks the operands, marks and takes.
func (k *maxUnpool) Run(c *executor.Ctx) error {
	in, own, full, shape, err := k.geometry.Planes(c)
	if err != nil {
		return err
	}
	if slices.Max(full[:]) >= 1<<31 || in >= 1<<32-1 {
		return c.Errorf("planes of %d elements and of shape %v; the CUDA kernels take lengths below 2^31", in, full)
	}
	y := c.Out(0, shape...)
	if y == nil {
		return nil
	}
	k.own = elements(own[:])
	marks := c.Scratch(4 * y.Len())
	if err := k.marks(c, marks, in, own, full); err != nil || y.Len() == 0 {
		return err
	}
	a := k.take.begin()
	a.In(c.In(0).Data)
	a.In(marks)
	a.Out(y.Data)
	for _, n := range [...]int{y.Len(), in, elements(full[:])} {
		a.Int(n)
	}
	return k.take.line(y.Len(), 1)
}

// marks marks the places of the output.
func (k *maxUnpool) marks(c *executor.Ctx, marks []byte, in int, own, full [3]int) error {
	index := c.In(1)
	bad, err := k.faults.begin(c, k)
	if err != nil {
		return err
	}
	if len(marks) > 0 {
		if err := k.faults.d.Memory().Fill(marks, 0); err != nil {
			return err
		}
	}
	a := k.mark.begin()
	a.In(index.Data)
	a.Out(marks)
	a.Out(bad)
	for _, n := range [...]int{index.Len(), in, k.own, elements(full[:])} {
		a.Int(n)
	}
	for _, v := range [...]int{own[1], own[2], full[1], full[2]} {
		a.Int32(int32(max(v, 1)))
	}
	if err := k.mark.line(index.Len(), 1); err != nil {
		return err
	}
	return k.faults.end(c, index, bad, k)
}

// describe is the error of an index that is not in its element's plane.
func (k *maxUnpool) describe(place int, value string) error {
	if value == "" {
		return fmt.Errorf("input 1, element %d: the index is not in that element's plane of %d elements", place, k.own)
	}
	return fmt.Errorf("input 1 has index %s at element %d, which is not in that element's plane of %d elements",
		value, place, k.own)
}
