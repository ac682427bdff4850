package cpu

import (
	"memopt/executor"
)

// blockMover moves blocks of b x b between the channels and the plane of images
// [n, channels, height, width].
type blockMover struct {
	mover
	bytes, b   int
	columns    bool // DepthToSpace's mode CRD: the channel comes before the place in the block
	toChannels bool // SpaceToDepth
}

// newDepthToSpace: channels become places of the plane.
// https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
func newDepthToSpace(p *executor.Prep) (executor.Kernel, error) {
	k, err := newBlockMover(p)
	if err != nil {
		return nil, err
	}
	switch mode := p.Node.Str("mode", "DCR"); mode {
	case "DCR":
	case "CRD":
		k.columns = true
	default:
		return nil, p.Errorf("attribute mode is %q, wanted DCR or CRD", mode)
	}
	return k, nil
}

// newSpaceToDepth: the inverse of DepthToSpace's mode DCR.
// https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html
func newSpaceToDepth(p *executor.Prep) (executor.Kernel, error) {
	k, err := newBlockMover(p)
	if err != nil {
		return nil, err
	}
	k.toChannels = true
	return k, nil
}

func newBlockMover(p *executor.Prep) (*blockMover, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	b := p.Node.Int("blocksize", 0)
	if b < 1 || b > 1<<30 {
		return nil, p.Errorf("attribute blocksize is %d, wanted 1 or more", b)
	}
	return &blockMover{bytes: size, b: int(b)}, nil
}

// Run permutes the axes: channel, row in the block, column in the block, row, column.
func (k *blockMover) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() != 4 {
		return c.Errorf("input 0 has shape %v, wanted rank 4", x.Shape)
	}
	if k.toChannels {
		return k.spaceToDepth(c, x)
	}
	n, b := x.Shape[0], k.b
	h, w, ch := x.Shape[2], x.Shape[3], x.Shape[1]/(b*b)
	if ch*b*b != x.Shape[1] {
		return c.Errorf("input 0 has shape %v and %d channels are no multiple of %d", x.Shape, x.Shape[1], b*b)
	}
	y := c.Out(0, n, ch, moveTimes(h, b), moveTimes(w, b))
	if y == nil {
		return nil
	}
	channel, block := h*w, ch*h*w // steps in x to the next channel, and to the next place in a block
	if k.columns {
		channel, block = b*b*h*w, h*w
	}
	k.begin(k.bytes)
	k.axis(n, ch*b*b*h*w, ch*b*b*h*w)
	k.axis(ch, b*b*h*w, channel)
	k.axis(h, b*b*w, w)
	k.axis(b, b*w, b*block)
	k.axis(w, b, 1)
	k.axis(b, 1, block)
	return k.run(c, y.Data, 0, x.Data, 0)
}

func (k *blockMover) spaceToDepth(c *executor.Ctx, x *executor.Tensor) error {
	n, ch, b := x.Shape[0], x.Shape[1], k.b
	h, w := x.Shape[2]/b, x.Shape[3]/b
	if h*b != x.Shape[2] || w*b != x.Shape[3] {
		return c.Errorf("input 0 has shape %v, whose plane is no multiple of %d", x.Shape, b)
	}
	y := c.Out(0, n, moveTimes(ch, b*b), h, w)
	if y == nil {
		return nil
	}
	k.begin(k.bytes)
	k.axis(n, b*b*ch*h*w, ch*b*b*h*w)
	k.axis(b, b*ch*h*w, b*w)
	k.axis(b, ch*h*w, 1)
	k.axis(ch, h*w, b*h*b*w)
	k.axis(h, w, b*b*w)
	k.axis(w, 1, b)
	return k.run(c, y.Data, 0, x.Data, 0)
}
