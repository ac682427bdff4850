package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// DropoutGrad and BitmaskDropoutGrad: dx = mask ? dy/(1-ratio) : 0. The training mode input is
// ignored, as in ONNX Runtime's kernels: gradients are computed in training only.
// https://github.com/microsoft/onnxruntime/blob/main/orttraining/orttraining/core/graph/training_op_defs.cc

func newDropoutGrad(packed bool) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		want := graph.Bool
		if packed {
			want = graph.Uint32
		}
		if d := p.DType(1); d != want {
			return nil, p.Errorf("input 1, the mask, has type %v, wanted %v", d, want)
		}
		switch d := p.DType(0); {
		case d == graph.Float64:
			return &dropoutGradKernel[float64]{packed: packed, dtype: d}, nil
		case d == graph.Float32 || isHalf(d):
			return &dropoutGradKernel[float32]{packed: packed, dtype: d}, nil
		}
		return nil, unsupportedTypes(p)
	}
}

type dropoutGradKernel[T chunkFloat] struct {
	packed bool
	dtype  graph.DType
	scale  T
	dy, dx []byte
	mask   []byte
	bits   []uint32
}

// Run checks the operands.
func (k *dropoutGradKernel[T]) Run(c *executor.Ctx) error {
	dy, mask := c.In(0), c.In(1)
	ratio, err := dropoutRatio(c, 2)
	if err != nil {
		return err
	}
	if k.packed {
		if mask.Len() != (dy.Len()+31)/32 {
			return c.Errorf("the mask is %v, wanted %d words for %v", mask, (dy.Len()+31)/32, dy)
		}
		k.bits = executor.Of[uint32](mask)
	} else {
		if !sameDims(mask.Shape, dy.Shape) {
			return c.Errorf("the mask is %v, the gradient %v: wanted the same shape", mask, dy)
		}
		k.mask = mask.Data
	}
	k.scale = T(1 / (1 - ratio))
	k.dy, k.dx = dy.Data, c.Out(0, dy.Shape...).Data
	c.Parallel(dy.Len(), 1<<14, k)
	return nil
}

// Range computes elements.
func (k *dropoutGradKernel[T]) Range(lo, hi int) {
	var words [chunkLen]uint32
	var xb, yb [chunkLen]T
	for i := lo; i < hi; i += chunkLen {
		j := min(i+chunkLen, hi)
		w := words[:j-i]
		if k.packed {
			unpackBits(w, k.bits[i/32:])
		} else {
			unpackBytes(w, k.mask[i:j])
		}
		y := chunkOut(k.dtype, k.dx, i, j, yb[:])
		selectScaled(y, chunkIn(k.dtype, k.dy, i, j, xb[:]), w, k.scale)
		chunkStore(k.dtype, k.dx, i, y)
	}
}
