package operand

import "memopt/executor"

// Blocks moves square blocks between the channels and the plane of images [n, channels, height,
// width]. https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
// https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html
type Blocks struct {
	side       int
	columns    bool // DepthToSpace's mode CRD: the channel comes before the place in the block
	toChannels bool // SpaceToDepth
}

// NewDepthToSpace makes DepthToSpace: channels become places of the plane.
func NewDepthToSpace(p *executor.Prep) (Move, error) {
	return newBlocks(p, false, p.Node.Str("mode", "DCR"))
}

// NewSpaceToDepth makes SpaceToDepth: the inverse of DepthToSpace's mode DCR.
func NewSpaceToDepth(p *executor.Prep) (Move, error) { return newBlocks(p, true, "DCR") }

func newBlocks(p *executor.Prep, toChannels bool, mode string) (Move, error) {
	b := p.Node.Int("blocksize", 0)
	if b < 1 || b > 1<<30 {
		return nil, p.Errorf("attribute blocksize is %d, wanted 1 or more", b)
	}
	if mode != "DCR" && mode != "CRD" {
		return nil, p.Errorf("attribute mode is %q, wanted DCR or CRD", mode)
	}
	return &Blocks{side: int(b), columns: mode == "CRD", toChannels: toChannels}, nil
}

// Run permutes the axes: channel, row in the block, column in the block, row, column.
func (k *Blocks) Run(c *executor.Ctx, m Copier) error {
	if c.In(0).Rank() != 4 {
		return c.Errorf("input 0 has shape %v, wanted rank 4", c.In(0).Shape)
	}
	if k.toChannels {
		return k.spaceToDepth(c, m)
	}
	return k.depthToSpace(c, m)
}

func (k *Blocks) depthToSpace(c *executor.Ctx, m Copier) error {
	x, b := c.In(0), k.side
	n, h, w, ch := x.Shape[0], x.Shape[2], x.Shape[3], x.Shape[1]/(b*b)
	if ch*b*b != x.Shape[1] {
		return c.Errorf("input 0 has shape %v, and %d channels are not a multiple of %d", x.Shape, x.Shape[1], b*b)
	}
	y := c.Out(0, n, ch, Times(h, b), Times(w, b))
	if y == nil {
		return nil
	}
	channel, block := h*w, ch*h*w // steps in x to the next channel, and to the next place in a block
	if k.columns {
		channel, block = b*b*h*w, h*w
	}
	m.Begin()
	m.Add(n, ch*b*b*h*w, ch*b*b*h*w)
	m.Add(ch, b*b*h*w, channel)
	m.Add(h, b*b*w, w)
	m.Add(b, b*w, b*block)
	m.Add(w, b, 1)
	m.Add(b, 1, block)
	return m.Copy(c, y.Data, 0, x.Data, 0)
}

func (k *Blocks) spaceToDepth(c *executor.Ctx, m Copier) error {
	x, b := c.In(0), k.side
	n, ch, h, w := x.Shape[0], x.Shape[1], x.Shape[2]/b, x.Shape[3]/b
	if h*b != x.Shape[2] || w*b != x.Shape[3] {
		return c.Errorf("input 0 has shape %v, whose plane is not a multiple of %d", x.Shape, b)
	}
	y := c.Out(0, n, Times(ch, b*b), h, w)
	if y == nil {
		return nil
	}
	m.Begin()
	m.Add(n, b*b*ch*h*w, ch*b*b*h*w)
	m.Add(b, b*ch*h*w, b*w)
	m.Add(b, ch*h*w, 1)
	m.Add(ch, h*w, b*h*b*w)
	m.Add(h, w, b*b*w)
	m.Add(w, 1, b)
	return m.Copy(c, y.Data, 0, x.Data, 0)
}
