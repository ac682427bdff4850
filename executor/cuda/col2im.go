package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/operand"
)

// col2Im is Col2Im: the last half of a convolution's transpose, which adds up columns of float32.
// The shapes of image and block are read on the host.
type col2Im struct {
	widen, back  *launch // widen: nil for float32
	geometry     *cpu.BlockGeometry
	image, block []int
	shape        []int
}

// newCol2Im makes the kernel of Col2Im.
func newCol2Im(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(0)
	if !isFloat(t) {
		return nil, noTypes(p)
	}
	g, err := cpu.NewBlockGeometry(p)
	if err != nil {
		return nil, err
	}
	k := &col2Im{geometry: g}
	if operand.ElementBytes(t) < 4 {
		if k.widen, err = d.launch("cast", "cast_"+suffix(t)+"_f32"); err != nil {
			return nil, err
		}
	}
	k.back, err = d.launch("conv_"+suffix(t), "back_"+suffix(t))
	return k, err
}

// Workspace counts the columns in float32.
func (k *col2Im) Workspace(in, _ [][]int) int {
	if k.widen == nil {
		return 0
	}
	return executor.RoundUp(4 * elements(in[0]))
}

// Run checks the shapes and adds up.
func (k *col2Im) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() != 3 {
		return c.Errorf("input 0 has rank %d, wanted 3", x.Rank())
	}
	w, err := k.window(c)
	if err != nil {
		return err
	}
	if x.Shape[1]%w.taps != 0 || x.Shape[2] != w.outPlane {
		return c.Errorf("input 0 has shape %v, wanted a multiple of %d, the block's elements, on axis 1, and %d, "+
			"the block's places, on axis 2",
			x.Shape, w.taps, w.outPlane)
	}
	channels := x.Shape[1] / w.taps
	k.shape = append(append(k.shape[:0], x.Shape[0], channels), k.image...)
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	columns := x.Data
	if k.widen != nil {
		columns = c.Scratch(4 * x.Len())
		k.widen.begin().In(x.Data).Out(columns).Int(x.Len()).Float32(0).Float32(0)
		if err := k.widen.line(x.Len(), 4); err != nil {
			return err
		}
	}
	a := k.back.begin().In(columns).In(nil).Out(y.Data).Int(y.Len()).Int(x.Shape[1] * x.Shape[2]).
		Int(w.outPlane).Int(channels * w.inPlane).Divider(max(w.inPlane, 1)).Divider(max(channels, 1))
	w.pack(a)
	return k.back.line(y.Len(), 1)
}

// window reads the shapes of image and block.
func (k *col2Im) window(c *executor.Ctx) (w window, err error) {
	for i, to := range [...]*[]int{&k.image, &k.block} {
		if *to, err = operand.Shape(c, 1+i, (*to)[:0]); err != nil {
			return w, err
		}
		for _, d := range *to {
			if d < i || d >= 1<<31 {
				return w, c.Errorf("input %d has %d, wanted %d to 2^31-1", 1+i, d, i)
			}
		}
	}
	slid, err := k.geometry.Over(k.image, k.block)
	if err != nil {
		return w, err
	}
	return newWindow(slid)
}
