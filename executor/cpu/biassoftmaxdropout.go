package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/internal/simd"
)

// BiasSoftmaxDropout: s = softmax(x + bias) over all dims from axis on together, y = dropout(s).
// The bias has x's dims from axis on and is broadcast over the axes before it. It always draws:
// there is no training mode. Outputs: y, the mask, s.
// https://github.com/microsoft/onnxruntime/blob/main/orttraining/orttraining/core/graph/training_op_defs.cc

var newBiasSoftmaxDropout = widened(func(p *executor.Prep) (executor.Kernel, error) {
	axis := int(p.Node.Int("axis", 1))
	draws, err := operand.DrawsOf(p)
	if err != nil {
		return nil, err
	}
	if d := p.DType(1); d != p.DType(0) {
		return nil, p.Errorf("the bias has type %v, the data %v", d, p.DType(0))
	}
	switch p.DType(0) {
	case graph.Float32:
		return &biasSoftmaxDropoutKernel[float32]{axis: axis, draws: draws}, nil
	case graph.Float64:
		return &biasSoftmaxDropoutKernel[float64]{axis: axis, draws: draws}, nil
	}
	return nil, unsupportedTypes(p)
})

type biasSoftmaxDropoutKernel[T chunkFloat] struct {
	axis  int
	draws operand.Draws

	dropoutDraw
	scale         T
	x, bias, y, s []T
	mask          []uint8
	length        int   // of a row
	lead          []int // dims before axis
	step          []int // rows of bias that a dim before axis steps over; 0 for a broadcast dim
}

// Run checks the operands and draws.
func (k *biasSoftmaxDropoutKernel[T]) Run(c *executor.Ctx) error {
	x, bias := c.In(0), c.In(1)
	axis := k.axis
	if axis < 0 {
		axis += x.Rank()
	}
	if axis < 0 || axis > x.Rank() {
		return c.Errorf("axis is %d, wanted at most the rank of %v", k.axis, x)
	}
	ratio, err := dropoutRatio(c, 2)
	if err != nil {
		return err
	}
	if err := k.broadcast(c, x, bias, axis); err != nil {
		return err
	}
	k.dropoutDraw = dropoutDraw{newPhiloxStream(k.draws, c.Step, 0), uint64(ratio * (1 << 32))}
	k.scale = T(1 / (1 - ratio))
	k.x, k.bias, k.mask = executor.Of[T](x), executor.Of[T](bias), nil
	y := c.Out(0, x.Shape...)
	k.y = executor.Of[T](y)
	if m := c.Out(1, x.Shape...); m != nil {
		k.mask = m.Data
	}
	// If the softmax is not wanted, it is computed in y's memory.
	k.s = k.y
	if s := c.Out(2, x.Shape...); s != nil {
		k.s = executor.Of[T](s)
	}
	c.Parallel(product(k.lead), max(1, (1<<13)/max(k.length, 1)), k)
	return nil
}

// broadcast finds the bias's row for each row of x.
func (k *biasSoftmaxDropoutKernel[T]) broadcast(c *executor.Ctx, x, bias *executor.Tensor, axis int) error {
	k.lead = append(k.lead[:0], x.Shape[:axis]...)
	k.length = product(x.Shape[axis:])
	k.step = append(k.step[:0], k.lead...)
	missing := x.Rank() - bias.Rank()
	if missing < 0 || missing > axis || !sameDims(bias.Shape[axis-missing:], x.Shape[axis:]) {
		return c.Errorf("the bias is %v, wanted the dims of %v from axis %d on, and at most %d before",
			bias, x, axis, axis)
	}
	rows := 1
	for i := axis - 1; i >= 0; i-- {
		k.step[i] = 0
		if i < missing || bias.Shape[i-missing] == 1 {
			continue
		}
		if bias.Shape[i-missing] != k.lead[i] {
			return c.Errorf("the bias is %v and does not broadcast to %v", bias, x)
		}
		k.step[i] = rows
		rows *= k.lead[i]
	}
	return nil
}

// Range computes rows.
func (k *biasSoftmaxDropoutKernel[T]) Range(lo, hi int) {
	n := k.length
	var words [chunkLen]uint32
	for row := lo; row < hi; row++ {
		b, r := 0, row
		for i := len(k.lead) - 1; i >= 0; i-- {
			b += r % k.lead[i] * k.step[i]
			r /= k.lead[i]
		}
		s := k.s[row*n : (row+1)*n]
		bias := k.bias[b*n : (b+1)*n]
		for i, v := range k.x[row*n : (row+1)*n] {
			s[i] = v + bias[i]
		}
		softmaxInPlace(s)
		for i := row * n; i < (row+1)*n; i += chunkLen {
			j := min(i+chunkLen, (row+1)*n)
			w := words[:j-i]
			k.keep(w, i)
			selectScaled(k.y[i:j], k.s[i:j], w, k.scale)
			if k.mask != nil {
				packBytes(k.mask[i:j], w)
			}
		}
	}
}

// softmaxInPlace sets x[i] = e^(x[i]-m) / sum of e^(x-m), where m is the largest element.
func softmaxInPlace[T chunkFloat](x []T) {
	var e T
	if len(x) == 0 {
		return
	}
	if _, ok := any(e).(float32); ok {
		x := executor.Cast[float32](executor.Memory(x))
		sum := simd.ExpSum(x, x, simd.Max(x))
		simd.MulScalar(x, x, 1/sum)
		return
	}
	m := x[0]
	for _, v := range x {
		m = max(m, v)
	}
	var sum T
	for i, v := range x {
		x[i] = T(math.Exp(float64(v - m)))
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}
