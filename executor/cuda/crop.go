package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// centerCropPad cuts or pads axes about their middle; the lengths are read on the host.
type centerCropPad struct {
	boxCopy
	crop operand.Cropping
}

// newCenterCropPad makes the kernel of CenterCropPad.
func newCenterCropPad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, operand.ElementBytes(p.DType(0)))
	return &centerCropPad{b, operand.NewCropping(p)}, err
}

// Run copies what is in both shapes, and fills the rest with zeros.
func (k *centerCropPad) Run(c *executor.Ctx) error {
	if err := k.crop.Read(c); err != nil {
		return err
	}
	y := c.Out(0, k.crop.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	if k.crop.Padded {
		if err := k.d.Memory().Fill(y.Data, 0); err != nil {
			return err
		}
	}
	return k.crop.Copy(c, &k.boxCopy, y)
}
