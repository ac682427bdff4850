package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// lastGroupNormKernel is ONNX Runtime's GroupNorm of x [N, H, W, C], followed, with activation = 1,
// by y*sigmoid(y).
type lastGroupNormKernel[T normElem] struct {
	groups  int64
	epsilon float64
	swish   bool

	x, y        []T
	scale, bias []T
	g, width    int
	places      int
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
			y, scale, bias := k.y[at:at+k.width], k.scale[first:first+k.width], k.bias[first:first+k.width]
			normAddScalar(y, k.x[at:at+k.width], -m)
			normMulScalar(y, y, inv)
			normMulAdd(y, y, scale, bias)
			if k.swish {
				for j, v := range y {
					y[j] = v / (1 + T(math.Exp(-float64(v))))
				}
			}
		}
	}
}
