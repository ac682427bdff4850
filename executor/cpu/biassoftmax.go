package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// biasSoftmaxKernel is ONNX Runtime's BiasSoftmax: softmax(data + bias) over all dims from the axis
// on. The bias is stretched to the data as in other operators: its dims of 1, and those it lacks in
// front. The attribute is_inner_broadcast says which of these a bias has; its shape says so too.
type biasSoftmaxKernel[T normElem] struct {
	softmaxAxis
	x, bias, y []T
	sum        normTensor[T] // y
	dims       []int         // of the data, innermost first, without the last
	steps      []int         // elements of the bias per step in each of dims; 0 where it is stretched
	run        int           // last dim
	single     bool          // the bias has one element per run
}

func newBiasSoftmax(p *executor.Prep) (executor.Kernel, error) {
	axis := newSoftmaxAxis(p, true)
	if p.DType(0) != p.DType(1) {
		return nil, unsupportedTypes(p)
	}
	switch p.DType(0) {
	case graph.Float32:
		return &biasSoftmaxKernel[float32]{softmaxAxis: axis}, nil
	case graph.Float64:
		return &biasSoftmaxKernel[float64]{softmaxAxis: axis}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run adds and computes the softmax.
func (k *biasSoftmaxKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.read(c, x.Shape); err != nil {
		return err
	}
	if err := k.stretch(c, x.Shape, c.In(1).Shape); err != nil {
		return err
	}
	if k.n < k.run {
		return c.Errorf("axis %d; input 0 has rank %d", k.attr, x.Rank())
	}
	k.x, k.bias, k.y = normData[T](c, 0), normData[T](c, 1), normOut[T](c, 0, x.Shape...)
	k.sum = normTensor[T]{data: k.y}
	if k.y != nil {
		k.parallel(c, k)
	}
	return nil
}

// stretch finds the steps of a bias of the given shape.
func (k *biasSoftmaxKernel[T]) stretch(c *executor.Ctx, shape, bias []int) error {
	if len(bias) > len(shape) {
		return c.Errorf("input 1, the bias, has shape %v, which cannot be stretched to %v", bias, shape)
	}
	k.dims, k.steps = k.dims[:0], k.steps[:0]
	k.run, k.single = 1, true
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		b := 1
		if j := i - (len(shape) - len(bias)); j >= 0 {
			b = bias[j]
		}
		if b != 1 && b != shape[i] {
			return c.Errorf("input 1, the bias, has shape %v, which cannot be stretched to %v", bias, shape)
		}
		if i == len(shape)-1 {
			k.run, k.single = shape[i], b == 1
		} else {
			k.dims = append(k.dims, shape[i])
			k.steps = append(k.steps, step)
			if b == 1 {
				k.steps[len(k.steps)-1] = 0
			}
		}
		step *= b
	}
	return nil
}

// Range does rows lo..hi-1.
func (k *biasSoftmaxKernel[T]) Range(lo, hi int) {
	var buf [normBlock]T
	for ; lo < hi; lo++ {
		y := k.y[lo*k.n : (lo+1)*k.n]
		for at := 0; at < k.n; at += k.run {
			i := lo*k.n + at
			x, sum := k.x[i:i+k.run], y[at:at+k.run]
			b := planOffset(k.dims, k.steps, i/k.run)
			if k.single {
				normAddScalar(sum, x, k.bias[b])
			} else {
				normAdd(sum, x, k.bias[b:b+k.run])
			}
		}
		softmaxRow(buf[:], &k.sum, &k.sum, lo*k.n, k.n)
	}
}
