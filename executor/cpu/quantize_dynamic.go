package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// DynamicQuantizeLinear chooses the scale and the zero point for uint8 from the range of x,
// extended to include 0: scale = (max-min)/255, zero_point = round(-min/scale), and
// y = saturate(round(x/scale) + zero_point). If all of x is 0 or x is empty, the scale is 1.
// https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html

type dynamicQuantizeKernel struct {
	x         []float32
	low, high []float32 // of blocks of rangeBlock elements
	scale     float32
	zero      int32
	y         []byte
}

const rangeBlock = 1 << 15

func newDynamicQuantize(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(0) != graph.Float32 {
		return nil, unsupportedTypes(p)
	}
	return &dynamicQuantizeKernel{}, nil
}

// Run finds the range and quantizes.
func (k *dynamicQuantizeKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	k.x = executor.Of[float32](x)
	k.low, k.high = k.low[:0], k.high[:0]
	for range (len(k.x) + rangeBlock - 1) / rangeBlock {
		k.low, k.high = append(k.low, 0), append(k.high, 0)
	}
	c.Parallel(len(k.low), 1, (*dynamicRange)(k))
	var low, high float32
	for i := range k.low {
		low, high = min(low, k.low[i]), max(high, k.high[i])
	}
	if k.scale = (high - low) / 255; k.scale == 0 {
		k.scale = 1
	}
	k.zero = min(max(roundEven(-low/k.scale), 0), 255)
	if y := c.Out(0, x.Shape...); y != nil {
		k.y = y.Data
		c.Parallel(len(k.x), 1<<14, k)
	}
	if s := c.Out(1); s != nil {
		executor.Of[float32](s)[0] = k.scale
	}
	if z := c.Out(2); z != nil {
		z.Data[0] = uint8(k.zero)
	}
	return nil
}

type dynamicRange dynamicQuantizeKernel

// Range finds the least and the largest elements of blocks.
func (k *dynamicRange) Range(lo, hi int) {
	for b := lo; b < hi; b++ {
		var low, high float32
		for _, v := range k.x[b*rangeBlock : min((b+1)*rangeBlock, len(k.x))] {
			low, high = min(low, v), max(high, v)
		}
		k.low[b], k.high[b] = low, high
	}
}

// Range quantizes elements.
func (k *dynamicQuantizeKernel) Range(lo, hi int) {
	quantizeRow(graph.Uint8, k.y, lo, k.x[lo:hi], k.scale, k.zero)
}
