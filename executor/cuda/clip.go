package cuda

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// smallSuffixes are the types in the names of kernels that only operators on all integers have.
var smallSuffixes = map[graph.DType]string{
	graph.Int8: "i8", graph.Int16: "i16", graph.Uint16: "u16", graph.Uint32: "u32", graph.Uint64: "u64",
}

// numberSuffix is suffix for integers of all sizes as well, and not for bools.
func numberSuffix(d graph.DType) string {
	if s := smallSuffixes[d]; s != "" || d == graph.Bool {
		return s
	}
	return suffix(d)
}

// clipKernel computes Clip. The bounds are scalars on the device, or attributes before version 11.
type clipKernel struct {
	*launch
	attrs       bool
	least, most float32
}

// newClip makes the kernel of Clip.
func newClip(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := numberSuffix(p.DType(0))
	if t == "" || p.Version < 11 && !p.DType(0).IsFloat() {
		return nil, noTypes(p)
	}
	if err := sameTypes(p); err != nil {
		return nil, err
	}
	l, err := d.launch("clip", "clip_"+t)
	return &clipKernel{launch: l, attrs: p.Version < 11, least: p.Node.Float("min", -math.MaxFloat32),
		most: p.Node.Float("max", math.MaxFloat32)}, err
}

// Run clips.
func (k *clipKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x == nil {
		return c.Errorf("input 0 is left out; it is required")
	}
	for i := 1; i <= 2; i++ {
		if b := c.In(i); b != nil && b.Len() != 1 {
			return c.Errorf("input %d, a bound, has shape %v, wanted a scalar", i, b.Shape)
		}
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	k.begin().In(x.Data).In(dataOf(c.In(1))).In(dataOf(c.In(2))).Out(y.Data).Int(x.Len()).Float32(k.least).
		Float32(k.most).Uint32(flag(k.attrs))
	return k.line(x.Len(), 4)
}
