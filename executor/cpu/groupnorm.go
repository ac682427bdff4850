package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// groupNormKernel normalises groups of neighbouring channels of x [N, C, D…], each sample on its
// own: y = (x-m)*scale/√(v+epsilon) + bias with the group's mean and variance.
// InstanceNormalization has groups of one channel. Scale and bias have one element per channel, or,
// in GroupNormalization before version 21, per group.
// https://onnx.ai/onnx/operators/onnx__GroupNormalization.html
type groupNormKernel[T normElem] struct {
	groups   int64 // 0 means as many as channels
	perGroup bool
	epsilon  float64

	x, y        normTensor[T]
	scale, bias []T
	g, width, d int // groups, channels per group, elements per channel
}

// newGroupNorm makes GroupNormalization.
func newGroupNorm(p *executor.Prep) (executor.Kernel, error) {
	groups := p.Node.Int("num_groups", 0)
	if groups < 1 {
		return nil, p.Errorf("attribute num_groups is %d or missing, wanted 1 or more", groups)
	}
	return makeGroupNorm(p, groups, p.Version < 21)
}

// newInstanceNorm makes InstanceNormalization.
func newInstanceNorm(p *executor.Prep) (executor.Kernel, error) { return makeGroupNorm(p, 0, false) }

func makeGroupNorm(p *executor.Prep, groups int64, perGroup bool) (executor.Kernel, error) {
	if !normTypes(p, len(p.In), len(p.Out)) {
		return nil, unsupportedTypes(p)
	}
	switch normAccumulates(p.DType(0)) {
	case graph.Float32:
		return &groupNormKernel[float32]{groups: groups, perGroup: perGroup, epsilon: normEpsilon(p)}, nil
	case graph.Float64:
		return &groupNormKernel[float64]{groups: groups, perGroup: perGroup, epsilon: normEpsilon(p)}, nil
	}
	return nil, unsupportedTypes(p)
}

// Workspace counts converted operands.
func (k *groupNormKernel[T]) Workspace(in, _ [][]int) int { return normWideSpace(in, 1, 2) }

// Run normalises.
func (k *groupNormKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 is %v, wanted rank 2 or more", x)
	}
	channels := x.Shape[1]
	if k.g = channels; k.groups > 0 {
		if int64(channels)%k.groups != 0 {
			return c.Errorf("input 0 has %d channels, which num_groups = %d does not divide", channels, k.groups)
		}
		k.g = int(k.groups)
	}
	want := channels
	if k.perGroup {
		want = k.g
	}
	if err := normVector(c, 1, "scale", want); err != nil {
		return err
	}
	if err := normVector(c, 2, "bias", want); err != nil {
		return err
	}
	k.width, k.d = channels/max(k.g, 1), product(x.Shape[2:])
	k.x, k.scale, k.bias = normOpen[T](x), normWide[T](c, 1), normWide[T](c, 2)
	if k.y = normOpen[T](c.Out(0, x.Shape...)); k.y.given() {
		c.Parallel(x.Shape[0]*k.g, normGrain(2*k.width*k.d), k)
	}
	return nil
}

// Range normalises groups lo..hi-1 of all samples.
func (k *groupNormKernel[T]) Range(lo, hi int) {
	var block [normBlock]T
	size := k.width * k.d
	for ; lo < hi; lo++ {
		m, inv := normRowStats(block[:], &k.x, lo*size, size, false, k.epsilon)
		for ch := range k.width {
			at := lo*size + ch*k.d
			s := lo%k.g*k.width + ch
			if k.perGroup {
				s = lo % k.g
			}
			normPlane(block[:], &k.y, &k.x, at, k.d, m, inv*k.scale[s], k.bias[s])
		}
	}
}
