package cuda

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// smallSuffixes are the names of types in those of kernels that only operators of all integers
// have.
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
	a := k.begin()
	a.In(x.Data)
	a.In(dataOf(c.In(1)))
	a.In(dataOf(c.In(2)))
	a.Out(y.Data)
	a.Int(x.Len())
	a.Float32(k.least)
	a.Float32(k.most)
	a.Uint32(flag(k.attrs))
	return k.line(x.Len(), 4)
}

// newShrink makes the kernel of Shrink.
func newShrink(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(0)
	if !isFloat(t) && (!t.IsInteger() || numberSuffix(t) == "") {
		return nil, noTypes(p)
	}
	return newUnary(d, p, "fmod", "shrink_"+numberSuffix(t), attr{"bias", 0}, attr{"lambd", 0.5})
}

// classify makes kernels of classify.cu, of one float.
func classify(name string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if t := p.DType(0); !isFloat(t) && t != graph.Float64 {
			return nil, noTypes(p)
		}
		return newUnary(d, p, "classify", name+"_"+suffix(p.DType(0)))
	}
}

// newIsInf makes the kernel of IsInf.
func newIsInf(d *Device, p *executor.Prep) (executor.Kernel, error) {
	k, err := classify("isinf")(d, p)
	if err == nil {
		u := k.(*unaryKernel)
		u.alpha, u.beta = float32(p.Node.Int("detect_positive", 1)), float32(p.Node.Int("detect_negative", 1))
	}
	return k, err
}

// bitSize returns the bytes of an integer in the names of kernels of bits.cu, "" for other types.
func bitSize(t graph.DType) string {
	if !t.IsInteger() || t.Bits() < 8 || t.Bits() > 64 {
		return ""
	}
	return string(rune('0' + t.Bits()/8))
}

// bitwise makes kernels of bits.cu, of two integers of the same type.
func bitwise(name string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		size := bitSize(p.DType(0))
		if size == "" || p.DType(1) != p.DType(0) {
			return nil, noTypes(p)
		}
		return newBroadcast(d, "bits", "bits_"+name+"_"+size, 2, 4)
	}
}

// newBitShift makes the kernel of BitShift.
func newBitShift(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if p.Node.Str("direction", "") == "LEFT" {
		return bitwise("left")(d, p)
	}
	return bitwise("right")(d, p)
}

// newBitwiseNot makes the kernel of BitwiseNot.
func newBitwiseNot(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size := bitSize(p.DType(0))
	if size == "" {
		return nil, noTypes(p)
	}
	return newUnary(d, p, "bits", "bits_not_"+size)
}
