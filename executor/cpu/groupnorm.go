package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// groupNormKernel normalises groups of neighbouring channels of x [N, C, D…], each sample on its own:
// y = (x-m)*scale/√(v+epsilon) + bias with the group's mean and variance. InstanceNormalization
// has groups of one channel. Scale and bias have one element per channel, or, in GroupNormalization before
// version 21, per group. https://onnx.ai/onnx/operators/onnx__GroupNormalization.html
type groupNormKernel[T normElem] struct {
	groups   int64 // 0: as many as channels
	perGroup bool
	epsilon  float64

	x, y, scale, bias []T
	g, width, d       int // groups, channels per group, elements per channel
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
	if !normOneType(p.In, p.Out) {
		return nil, unsupportedTypes(p)
	}
	switch p.DType(0) {
	case graph.Float32:
		return &groupNormKernel[float32]{groups: groups, perGroup: perGroup, epsilon: normEpsilon(p)}, nil
	case graph.Float64:
		return &groupNormKernel[float64]{groups: groups, perGroup: perGroup, epsilon: normEpsilon(p)}, nil
	}
	return nil, unsupportedTypes(p)
}

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
	k.x, k.scale, k.bias = normData[T](c, 0), normData[T](c, 1), normData[T](c, 2)
	if k.y = normOut[T](c, 0, x.Shape...); k.y != nil {
		c.Parallel(x.Shape[0]*k.g, normGrain(2*k.width*k.d), k)
	}
	return nil
}

// Range normalises groups lo..hi-1 of all samples.
func (k *groupNormKernel[T]) Range(lo, hi int) {
	size := k.width * k.d
	for ; lo < hi; lo++ {
		m, inv := normRowStats(k.x[lo*size:(lo+1)*size], false, k.epsilon)
		for ch := range k.width {
			at := lo*size + ch*k.d
			s := lo%k.g*k.width + ch
			if k.perGroup {
				s = lo % k.g
			}
			normPlane(k.y[at:at+k.d], k.x[at:at+k.d], m, inv*k.scale[s], k.bias[s])
		}
	}
}

// lastGroupNormKernel is ONNX Runtime's GroupNorm of x [N, H, W, C], followed, with activation = 1, by
// y*sigmoid(y).
type lastGroupNormKernel[T normElem] struct {
	groups  int64
	epsilon float64
	swish   bool

	x, y, scale, bias []T
	g, width, places  int
}

func newLastGroupNorm(p *executor.Prep) (executor.Kernel, error) {
	groups, act := p.Node.Int("groups", 0), p.Node.Int("activation", 0)
	if groups < 1 {
		return nil, p.Errorf("attribute groups is %d or missing, wanted 1 or more", groups)
	}
	if act != 0 && act != 1 {
		return nil, p.Errorf("attribute activation is %d, wanted 0 or 1", act)
	}
	if p.Node.Int("channels_last", 1) == 0 {
		return nil, p.Unsupported("attribute channels_last is 0")
	}
	if !normOneType(p.In, p.Out) {
		return nil, unsupportedTypes(p)
	}
	switch p.DType(0) {
	case graph.Float32:
		return &lastGroupNormKernel[float32]{groups: groups, epsilon: normEpsilon(p), swish: act == 1}, nil
	case graph.Float64:
		return &lastGroupNormKernel[float64]{groups: groups, epsilon: normEpsilon(p), swish: act == 1}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run normalises.
func (k *lastGroupNormKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() != 4 {
		return c.Errorf("input 0 is %v, wanted rank 4", x)
	}
	channels := x.Shape[3]
	if int64(channels)%k.groups != 0 {
		return c.Errorf("input 0 has %d channels, which groups = %d does not divide", channels, k.groups)
	}
	for i := 1; i < 3; i++ {
		if err := normVector(c, i, "scale or bias", channels); err != nil {
			return err
		}
	}
	k.g = int(k.groups)
	k.width, k.places = channels/k.g, x.Shape[1]*x.Shape[2]
	k.x, k.scale, k.bias = normData[T](c, 0), normData[T](c, 1), normData[T](c, 2)
	if k.y = normOut[T](c, 0, x.Shape...); k.y != nil {
		c.Parallel(x.Shape[0]*k.g, normGrain(2*k.width*k.places), k)
	}
	return nil
}

// Range normalises groups lo..hi-1 of all samples; sums go place by place.
func (k *lastGroupNormKernel[T]) Range(lo, hi int) {
	channels := k.g * k.width
	count := T(k.places * k.width)
	for ; lo < hi; lo++ {
		first := lo % k.g * k.width
		base := lo/k.g*k.places*channels + first
		var sum, squares T
		for i := range k.places {
			sum += normSum(k.x[base+i*channels:][:k.width])
		}
		m := sum / count
		for i := range k.places {
			squares += normSumSquares(k.x[base+i*channels:][:k.width], m)
		}
		inv := T(1 / math.Sqrt(float64(squares/count)+k.epsilon))
		for i := range k.places {
			at := base + i*channels
			y := k.y[at : at+k.width]
			normRow(y, k.x[at:at+k.width], k.scale[first:first+k.width], k.bias[first:first+k.width], m, inv)
			if k.swish {
				for j, v := range y {
					y[j] = v / (1 + T(math.Exp(-float64(v))))
				}
			}
		}
	}
}
