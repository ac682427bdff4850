package cuda

import "memopt/executor"

// expander stretches input 0 to the shape that input 1 lists, as numpy broadcasts.
type expander struct {
	boxCopy
	want, shape, step []int
}

// newExpand makes the kernel of Expand.
func newExpand(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
	return &expander{boxCopy: b}, err
}

// dimFromBack returns the dim with a number from the back, 1 being the last; 1 before the first.
func dimFromBack(shape []int, i int) int {
	if i > len(shape) {
		return 1
	}
	return shape[len(shape)-i]
}

// Run repeats along the axes that are stretched.
func (k *expander) Run(c *executor.Ctx) error {
	x := c.In(0)
	var err error
	if k.want, err = hostShape(c, 1, k.want[:0]); err != nil {
		return err
	}
	rank := max(len(k.want), x.Rank())
	k.shape = k.shape[:0]
	for i := range rank {
		a, b := dimFromBack(x.Shape, rank-i), dimFromBack(k.want, rank-i)
		if a != b && a != 1 && b != 1 {
			return c.Errorf("input 0 has shape %v and input 1 lists %v, which do not broadcast", x.Shape, k.want)
		}
		if a == 1 {
			a = b
		}
		k.shape = append(k.shape, a)
	}
	y := c.Out(0, k.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.step = rowMajor(k.step, k.shape)
	k.begin()
	from := x.Len()
	for i, d := range k.shape {
		if a := dimFromBack(x.Shape, rank-i); a == 1 {
			k.add(d, k.step[i], 0)
		} else {
			from /= a
			k.add(d, k.step[i], from)
		}
	}
	return k.copyBox(c, y.Data, 0, x.Data, 0)
}

// tiler repeats input 0 along its axes as often as input 1 lists.
type tiler struct {
	boxCopy
	repeats, shape, step []int
}

// newTile makes the kernel of Tile.
func newTile(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
	return &tiler{boxCopy: b}, err
}

// Run copies with two axes per axis of the input: the repeats, and the elements.
func (k *tiler) Run(c *executor.Ctx) error {
	x := c.In(0)
	var err error
	if k.repeats, err = hostInts(c, 1, k.repeats[:0]); err != nil {
		return err
	}
	if len(k.repeats) != x.Rank() {
		return c.Errorf("input 1 has %d repeats and input 0 has shape %v", len(k.repeats), x.Shape)
	}
	k.shape = k.shape[:0]
	for i, r := range k.repeats {
		if r < 0 {
			return c.Errorf("input 1 has the repeat %d", r)
		}
		k.shape = append(k.shape, dimTimes(x.Shape[i], r))
	}
	y := c.Out(0, k.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.step = rowMajor(k.step, k.shape)
	k.begin()
	from := x.Len()
	for i, d := range x.Shape {
		from /= d
		k.add(k.repeats[i], d*k.step[i], 0)
		k.add(d, k.step[i], from)
	}
	return k.copyBox(c, y.Data, 0, x.Data, 0)
}

// blocks moves blocks between the channels and the plane of images [n, channels, height, width].
type blocks struct {
	boxCopy
	b          int
	columns    bool // DepthToSpace's mode CRD: the channel comes before the place in the block
	toChannels bool // SpaceToDepth
}

// newBlocks makes the kernels of DepthToSpace and SpaceToDepth.
func newBlocks(toChannels bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
		if err != nil {
			return nil, err
		}
		return &blocks{b, int(p.Node.Int("blocksize", 0)), p.Node.Str("mode", "DCR") == "CRD", toChannels}, nil
	}
}

// Run permutes channel, row in the block, column in the block, row and column.
func (k *blocks) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() != 4 {
		return c.Errorf("input 0 has shape %v, wanted rank 4", x.Shape)
	}
	if k.toChannels {
		return k.spaceToDepth(c, x)
	}
	n, b, h, w := x.Shape[0], k.b, x.Shape[2], x.Shape[3]
	ch := x.Shape[1] / (b * b)
	if ch*b*b != x.Shape[1] {
		return c.Errorf("input 0 has shape %v and %d channels are no multiple of %d", x.Shape, x.Shape[1], b*b)
	}
	y := c.Out(0, n, ch, dimTimes(h, b), dimTimes(w, b))
	if y == nil {
		return nil
	}
	channel, block := h*w, ch*h*w // steps in x to the next channel, and to the next place in a block
	if k.columns {
		channel, block = b*b*h*w, h*w
	}
	k.begin()
	k.add(n, ch*b*b*h*w, ch*b*b*h*w)
	k.add(ch, b*b*h*w, channel)
	k.add(h, b*b*w, w)
	k.add(b, b*w, b*block)
	k.add(w, b, 1)
	k.add(b, 1, block)
	return k.copyBox(c, y.Data, 0, x.Data, 0)
}

func (k *blocks) spaceToDepth(c *executor.Ctx, x *executor.Tensor) error {
	n, ch, b := x.Shape[0], x.Shape[1], k.b
	h, w := x.Shape[2]/b, x.Shape[3]/b
	if h*b != x.Shape[2] || w*b != x.Shape[3] {
		return c.Errorf("input 0 has shape %v, whose plane is no multiple of %d", x.Shape, b)
	}
	y := c.Out(0, n, dimTimes(ch, b*b), h, w)
	if y == nil {
		return nil
	}
	k.begin()
	k.add(n, b*b*ch*h*w, ch*b*b*h*w)
	k.add(b, b*ch*h*w, b*w)
	k.add(b, ch*h*w, 1)
	k.add(ch, h*w, b*h*b*w)
	k.add(h, w, b*b*w)
	k.add(w, 1, b)
	return k.copyBox(c, y.Data, 0, x.Data, 0)
}
