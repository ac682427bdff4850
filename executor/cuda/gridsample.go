package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// affineGrid computes AffineGrid; the size is read on the host.
type affineGrid struct {
	*launch
	align       bool
	size, shape []int
}

// newAffineGrid makes the kernel of AffineGrid.
func newAffineGrid(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if !isFloat(p.DType(0)) {
		return nil, noTypes(p)
	}
	l, err := d.launch("grid", "affine_grid")
	return &affineGrid{launch: l, align: p.Node.Int("align_corners", 0) != 0}, err
}

// Run computes the grid.
func (k *affineGrid) Run(c *executor.Ctx) error {
	theta := c.In(0)
	var err error
	if k.size, err = operand.Shape(c, 1, k.size[:0]); err != nil {
		return err
	}
	axes := len(k.size) - 2
	if axes != 2 && axes != 3 {
		return c.Errorf("input 1 has %d elements, wanted 4 (N, C, H, W) or 5 (N, C, D, H, W)", len(k.size))
	}
	if s := theta.Shape; len(s) != 3 || s[0] != k.size[0] || s[1] != axes || s[2] != axes+1 {
		return c.Errorf("input 0 has shape %v, wanted [%d %d %d]", s, k.size[0], axes, axes+1)
	}
	k.shape = append(append(append(k.shape[:0], k.size[0]), k.size[2:]...), axes)
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	places := elements(k.size[2:])
	a := k.begin().In(theta.Data).Out(y.Data).Int(k.size[0] * places).Int(places)
	for i := range 3 {
		if i < axes {
			a.Int32(int32(k.size[1+axes-i]))
		} else {
			a.Int32(1)
		}
	}
	a.Int32(int32(axes)).Uint32(typeOf(theta)).Uint32(flag(k.align))
	return k.line(k.size[0]*places, 1)
}

// gridSample computes GridSample.
type gridSample struct {
	*launch
	mode, padding uint32
	align         bool
	shape         []int
}

// sampleChunk is how many channels a thread samples at most with the same weights.
const sampleChunk = 8

// newGridSample makes the kernel of GridSample.
func newGridSample(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if err := anyFloats(p, p.DType(0), p.DType(1)); err != nil {
		return nil, err
	}
	k := &gridSample{padding: map[string]uint32{"border": 1, "reflection": 2}[p.Node.Str("padding_mode", "zeros")],
		align: p.Node.Int("align_corners", 0) != 0}
	name := "grid_linear"
	switch p.Node.Str("mode", "linear") {
	case "nearest":
		name = "grid_nearest"
	case "cubic", "bicubic":
		name, k.mode = "grid_cubic", 2
	default:
		k.mode = 1
	}
	var err error
	k.launch, err = d.launch("grid", name)
	return k, err
}

// Run checks the shapes and samples.
func (k *gridSample) Run(c *executor.Ctx) error {
	x, grid := c.In(0), c.In(1)
	rank := x.Rank() - 2
	if rank < 1 || rank > 3 {
		return c.Errorf("input 0 has rank %d, wanted 3 to 5", x.Rank())
	}
	if g := grid.Shape; len(g) != x.Rank() || g[0] != x.Shape[0] || g[len(g)-1] != rank {
		return c.Errorf("input 1 (grid) has shape %v; with data of shape %v, wanted rank %d, batch %d and last dim %d",
			g, x.Shape, x.Rank(), x.Shape[0], rank)
	}
	k.shape = append(append(k.shape[:0], x.Shape[:2]...), grid.Shape[1:1+rank]...)
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	if elements(x.Shape[2:]) == 0 {
		return c.Errorf("input 0 has shape %v: its planes are empty", x.Shape)
	}
	for _, d := range x.Shape[1:] {
		if d >= 1<<31 {
			return c.Errorf("input 0 has shape %v; the CUDA kernels take lengths below 2^31", x.Shape)
		}
	}
	places := elements(k.shape[2:])
	work := x.Shape[0] * ((x.Shape[1] + sampleChunk - 1) / sampleChunk) * places
	a := k.begin().In(x.Data).In(grid.Data).Out(y.Data).Int(work).Int(places).Int32(int32(x.Shape[1])).
		Int32(sampleChunk)
	for i := 3; i > 0; i-- {
		if i > rank {
			a.Int32(1)
		} else {
			a.Int32(int32(x.Shape[x.Rank()-i]))
		}
	}
	a.Int32(int32(rank)).Uint32(typeOf(x)).Uint32(typeOf(grid)).Uint32(k.mode).Uint32(k.padding).
		Uint32(flag(k.align))
	return k.line(work, 1)
}
