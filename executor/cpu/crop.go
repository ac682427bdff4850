package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// centerCropPad cuts or pads axes about their middle.
// https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
type centerCropPad struct {
	mover
	moveFiller
	crop operand.Cropping
}

func newCenterCropPad(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	return &centerCropPad{mover: mover{size: size}, crop: operand.NewCropping(p)}, err
}

// Run copies the part that is in both shapes.
func (k *centerCropPad) Run(c *executor.Ctx) error {
	if err := k.crop.Read(c); err != nil {
		return err
	}
	y := c.Out(0, k.crop.Shape...)
	if y == nil {
		return nil
	}
	if k.crop.Padded {
		k.zero(c, y.Data)
	}
	return k.crop.Copy(c, &k.mover, y)
}
