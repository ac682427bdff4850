package cuda

import (
	"fmt"

	"memopt/executor"
)

// intDivision is Div or Mod of integers. The device says where a divisor is 0; a run waits for
// that, unless its step is captured.
type intDivision struct {
	*broadcastKernel
	faults outside
	floors bool
}

// division makes the kernels of Div and Mod: those of integers, and else those of floats, from a
// module's kernels.
func division(name string, floats maker) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		t := p.DType(0)
		if !t.IsInteger() {
			return floats(d, p)
		}
		if len(p.In) != 2 || p.DType(1) != t || numberSuffix(t) == "" {
			return nil, noTypes(p)
		}
		b, err := newBroadcast(d, "intdiv", name+"_"+numberSuffix(t), 2, 1)
		return &intDivision{b, outside{d: d}, p.Node.Int("fmod", 0) == 0}, err
	}
}

// Workspace has room for the faults that the device reports.
func (k *intDivision) Workspace(_, _ [][]int) int { return executor.RoundUp(outsideBytes) }

// Run divides.
func (k *intDivision) Run(c *executor.Ctx) error {
	if err := k.set(c, c.In(0), c.In(1)); err != nil {
		return err
	}
	if n := c.In(1).Len(); n >= 1<<32-1 {
		return c.Errorf("input 1 has %d elements; the CUDA kernel takes less than 2^32-1", n)
	}
	y := c.Out(0, k.shape...)
	if y == nil || k.n == 0 {
		return nil
	}
	bad, err := k.faults.begin(c, describeFunc(divisionByZero))
	if err != nil {
		return err
	}
	a := k.begin()
	k.pack(a, y)
	a.Out(bad).Uint32(flag(k.floors))
	if err := k.line(k.n, 1); err != nil {
		return err
	}
	return k.faults.end(c, nil, bad, describeFunc(divisionByZero))
}

// divisionByZero is the error of a divisor.
func divisionByZero(place int, _ string) error {
	return fmt.Errorf("input 1, element %d: division by zero", place)
}

// floatMod makes the kernel of Mod of floats.
func floatMod(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(0)
	if !isFloat(t) || p.DType(1) != t {
		return nil, noTypes(p)
	}
	return newBroadcast(d, "fmod", "mod_"+suffix(t), 2, 4)
}
