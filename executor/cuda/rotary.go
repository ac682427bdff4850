package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
)

// rotaryKernel is RotaryEmbedding. The positions are checked on the host, where an invalid one can
// be reported, and sent to the device.
type rotaryKernel struct {
	*launch
	cpu.RotaryGeometry
}

// newRotary makes RotaryEmbedding, com.microsoft's where ms holds.
func newRotary(ms bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		g, err := cpu.NewRotaryGeometry(p, ms)
		if err != nil {
			return nil, err
		}
		if !isFloat(p.DType(0)) {
			return nil, noTypes(p)
		}
		l, err := d.launch("rotary", "rotary_"+suffix(p.DType(0)))
		return &rotaryKernel{l, g}, err
	}
}

// Workspace holds the positions.
func (k *rotaryKernel) Workspace(in, _ [][]int) int {
	if k.PosAt >= len(in) || in[k.PosAt] == nil {
		return 0
	}
	return executor.RoundUp(8 * elements(in[k.PosAt]))
}

// Run turns the pairs.
func (k *rotaryKernel) Run(c *executor.Ctx) error {
	if err := k.Read(c); err != nil {
		return err
	}
	x := c.In(0)
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	var positions []byte
	if k.Positions != nil {
		var err error
		if positions, err = k.d.send(c, executor.Memory(k.Positions)); err != nil {
			return err
		}
	}
	outer, inner := k.Heads, k.Seq
	if k.Packed {
		outer, inner = inner, outer
	}
	half := k.Dim / 2
	n := x.Len() / k.Size * (k.Size - half)
	a := k.begin().In(x.Data).In(c.In(k.CosAt).Data).In(c.In(k.CosAt + 1).Data).In(positions).Out(y.Data).
		Int(n)
	for _, v := range [...]int{k.Size, half, k.Seq, k.First, k.RowBatch, k.RowSeq} {
		a.Int(v)
	}
	a.Divider(k.Size - half).Divider(inner).Divider(outer).Uint32(flag(k.Packed)).Uint32(flag(k.Interleaved))
	return k.line(n, 1)
}
