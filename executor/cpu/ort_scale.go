package cpu

import (
	"sync/atomic"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/simd"
)

// newAllFinite makes the kernel of IsAllFinite: whether no element of any input is infinite or NaN;
// attributes isinf_only and isnan_only restrict the test to one of the two.
func newAllFinite(p *executor.Prep) (executor.Kernel, error) {
	inf, nan := p.Node.Int("isinf_only", 0) != 0, p.Node.Int("isnan_only", 0) != 0
	if inf && nan {
		return nil, p.Errorf("attributes isinf_only and isnan_only are both set")
	}
	k := &allFiniteKernel{inf: !nan, nan: !inf}
	for i, d := range p.In {
		switch d {
		case graph.Float16, graph.BFloat16, graph.Float32, graph.Float64:
		case graph.Undefined:
			return nil, p.Errorf("input %d is left out; it is required", i)
		default:
			return nil, unsupportedTypes(p)
		}
	}
	return k, nil
}

type allFiniteKernel struct {
	inf, nan bool // whether they count
	x        *executor.Tensor
	found    atomic.Bool
}

// Run searches one input after the other until something is found.
func (k *allFiniteKernel) Run(c *executor.Ctx) error {
	k.found.Store(false)
	for i := range c.Inputs() {
		k.x = c.In(i)
		c.Parallel(k.x.Len(), elemLight, k)
	}
	if y := c.Out(0); y != nil {
		y.Data[0] = elemTruth(!k.found.Load())
	}
	return nil
}

// Range searches elements lo..hi-1.
func (k *allFiniteKernel) Range(lo, hi int) {
	if k.found.Load() {
		return
	}
	var found bool
	switch k.x.DType {
	case graph.Float16:
		found = hasSpecial(executor.Of[uint16](k.x)[lo:hi], 0x7c00, k.inf, k.nan)
	case graph.BFloat16:
		found = hasSpecial(executor.Of[uint16](k.x)[lo:hi], 0x7f80, k.inf, k.nan)
	case graph.Float32:
		found = hasSpecial(executor.Of[uint32](k.x)[lo:hi], 0x7f800000, k.inf, k.nan)
	default:
		found = hasSpecial(executor.Of[uint64](k.x)[lo:hi], 0x7ff0000000000000, k.inf, k.nan)
	}
	if found {
		k.found.Store(true)
	}
}

// hasSpecial reports whether any of the numbers whose bits are given is infinite or NaN. Without
// the sign, the bits of finite numbers are below those of infinity, those of NaNs above.
func hasSpecial[T uint16 | uint32 | uint64](x []T, infinity T, inf, nan bool) bool {
	sign := ^T(0)>>1 + 1
	for _, v := range x {
		if u := v &^ sign; u >= infinity && (u == infinity && inf || u > infinity && nan) {
			return true
		}
	}
	return false
}

// newMixedPrecisionScale makes the kernel of MixedPrecisionScale: the inputs from 1 on, each times
// the scalar in input 0 and converted to another type, are the outputs or, with attribute
// fuse_outputs, one vector.
func newMixedPrecisionScale(p *executor.Prep) (executor.Kernel, error) {
	k := &mixedScaleKernel{fuse: p.Node.Int("fuse_outputs", 0) != 0}
	to := graph.DType(p.Node.Int("to", 0))
	if !k.fuse && len(p.Out) > len(p.In)-1 {
		return nil, p.Errorf("has %d outputs, wanted %d, one per scaled input", len(p.Out), len(p.In)-1)
	}
	for i := 1; i < len(p.In); i++ {
		as, loop, slot := graph.Float32, loop2(simd.Mul), i-1
		if p.DType(i) == graph.Float64 {
			as, loop = graph.Float64, loop2(mulLoop[float64])
		}
		if k.fuse {
			slot = 0
		}
		if !elemCastable(p.DType(0)) || !elemCastable(p.DType(i)) || !elemCastable(to) {
			return nil, unsupportedTypes(p)
		}
		out := elemOutput{slot: slot, size: to.Bits() / 8, wide: as.Bits() / 8, store: elemConversion(as, to)}
		k.parts = append(k.parts, &elemKernel{loop: loop, grain: elemLight, rule: elemScalarsAfter(1), out: out,
			in: []elemInput{elemIn(p, i, as), elemIn(p, 0, as)}})
	}
	return k, nil
}

type mixedScaleKernel struct {
	parts []*elemKernel
	fuse  bool
}

// Run scales the inputs one by one.
func (k *mixedScaleKernel) Run(c *executor.Ctx) error {
	total := 0
	for _, part := range k.parts {
		if !k.fuse && c.Wants(part.out.slot) {
			if err := part.Run(c); err != nil {
				return err
			}
		} else if err := part.plan(c); err != nil {
			return err
		}
		total += part.n
	}
	if !k.fuse {
		return nil
	}
	y, at := c.Out(0, total), 0
	for _, part := range k.parts {
		if y != nil {
			part.out.data = y.Data[at*part.out.size:]
			part.prepare(c)
			c.Parallel(part.n, part.grain, part)
			at += part.n
		}
	}
	return nil
}
