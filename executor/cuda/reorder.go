package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

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
	a := k.begin().In(x.Data).Out(y.Data).Int(y.Len()).Int(k.Diag)
	packAxes(a, 2, func(i int) int { return x.Shape[x.Rank()-1-i] })
	a.Uint32(flag(k.Upper))
	return k.line(y.Len(), 1)
}
