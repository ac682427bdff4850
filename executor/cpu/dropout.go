package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/graph/op"
)

// Dropout sets each element to zero with probability ratio, independently, and divides the others
// by 1-ratio:
//
//	y = keep ? (x + bias)/(1-ratio) : 0, + residual
//
// Element i is kept where word i of the node's stream is not below ratio*2^32, whatever the element
// type. The mask marks kept elements: a bool per element, or a bit for the operators called
// Bitmask, where element i is bit i mod 32 of word i/32. Without training mode all elements are
// kept and not divided. https://onnx.ai/onnx/operators/onnx__Dropout.html

// dropoutSlots has the input slots of the operators of Dropout's family; 0 means that the operator
// has no such input.
type dropoutSlots struct {
	bias, residual, ratio, training int
	packed                          bool // the mask has a bit per element
}

var (
	plainDropout       = dropoutSlots{ratio: 1, training: 2}
	biasDropout        = dropoutSlots{bias: 1, residual: 2, ratio: 3, training: 4}
	bitmaskDropout     = dropoutSlots{ratio: 1, training: 2, packed: true}
	bitmaskBiasDropout = dropoutSlots{bias: 1, residual: 2, ratio: 3, training: 4, packed: true}
)

func newDropout(slots dropoutSlots) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		s := slots
		if p.Node.Kind == op.Dropout {
			if p.Version < 7 {
				return nil, p.Unsupported("no kernel below operator set 7")
			}
			if p.Version < 12 { // the ratio is an attribute, which has no effect without training mode
				s.ratio, s.training = 0, 0
			}
		}
		if d := p.DType(s.residual); s.residual > 0 && p.Has(s.residual) && d != p.DType(0) {
			return nil, p.Errorf("the residual has type %v, the data %v", d, p.DType(0))
		}
		if d := p.DType(s.bias); s.bias > 0 && d != p.DType(0) {
			return nil, p.Errorf("the bias has type %v, the data %v", d, p.DType(0))
		}
		draws, err := operand.DrawsOf(p)
		if err != nil {
			return nil, err
		}
		switch d := p.DType(0); {
		case d == graph.Float64:
			return &dropoutKernel[float64]{p: p, slots: s, draws: draws, dtype: d}, nil
		case d == graph.Float32 || isHalf(d):
			return &dropoutKernel[float32]{p: p, slots: s, draws: draws, dtype: d}, nil
		}
		return nil, unsupportedTypes(p)
	}
}

type dropoutKernel[T chunkFloat] struct {
	p     *executor.Prep
	slots dropoutSlots
	draws operand.Draws
	dtype graph.DType

	dropoutDraw
	scale          T
	x, residual, y []byte
	bias           []byte
	period         int    // length of the bias
	mask           []byte // of bools, nil if not wanted
	bits           []uint32
	oldMask        *executor.Tensor // the mask of operator sets below 10, of the data's type
	drawing        bool
}

// dropoutDraw decides which elements are kept.
type dropoutDraw struct {
	words     philoxStream
	threshold uint64 // ratio*2^32: smaller words drop
}

// keep sets words to all ones for the elements from first on that are kept, and to
// zero for the others.
func (d *dropoutDraw) keep(words []uint32, first int) {
	d.words.fill(words, first)
	keepWords(words, d.threshold)
}

// dropoutRatio reads the ratio from the input in slot; it is 0.5 by default.
func dropoutRatio(c *executor.Ctx, slot int) (float64, error) {
	if slot == 0 || c.In(slot) == nil {
		return 0.5, nil
	}
	r, ok := realScalar(c.In(slot))
	if !ok {
		return 0, c.Errorf("input %d, the ratio, is %v, wanted one float", slot, c.In(slot))
	}
	if !(r >= 0 && r < 1) {
		return 0, c.Errorf("the ratio is %v, wanted a number in [0, 1)", r)
	}
	return r, nil
}

// Run checks the operands and draws.
func (k *dropoutKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	training, err := k.training(c)
	if err != nil {
		return err
	}
	ratio := 0.0
	if training {
		if ratio, err = dropoutRatio(c, k.slots.ratio); err != nil {
			return err
		}
	}
	k.drawing = ratio > 0
	k.dropoutDraw = dropoutDraw{newPhiloxStream(k.draws, c.Step, 0), uint64(ratio * (1 << 32))}
	k.scale = T(1 / (1 - ratio))
	if err := k.sides(c, x); err != nil {
		return err
	}
	k.outputs(c, x)
	// A multiple of 32 keeps a word of a bitmask in one piece.
	c.Parallel(x.Len(), 1<<14, k)
	return nil
}

func (k *dropoutKernel[T]) training(c *executor.Ctx) (bool, error) {
	t := c.In(k.slots.training)
	if k.slots.training == 0 || t == nil {
		return false, nil
	}
	if t.DType != graph.Bool || t.Len() != 1 {
		return false, c.Errorf("input %d, the training mode, is %v, wanted one bool", k.slots.training, t)
	}
	return t.Data[0] != 0, nil
}

// sides reads the bias and the residual.
func (k *dropoutKernel[T]) sides(c *executor.Ctx, x *executor.Tensor) error {
	k.bias, k.residual = nil, nil
	if s := k.slots.residual; s > 0 && c.In(s) != nil {
		if !sameDims(c.In(s).Shape, x.Shape) {
			return c.Errorf("the residual is %v, wanted the data's shape %v", c.In(s), x.Shape)
		}
		k.residual = c.In(s).Data
	}
	if k.slots.bias == 0 {
		return nil
	}
	b := c.In(k.slots.bias)
	if k.period = b.Len(); !endsWithDims(x.Shape, b.Shape) {
		return c.Errorf("the bias is %v, wanted the last dims of the data's shape %v", b, x.Shape)
	}
	k.bias = b.Data
	return nil
}

func (k *dropoutKernel[T]) outputs(c *executor.Ctx, x *executor.Tensor) {
	k.x = x.Data
	k.y, k.mask, k.bits, k.oldMask = nil, nil, nil, nil
	if y := c.Out(0, x.Shape...); y != nil {
		k.y = y.Data
	}
	switch {
	case !c.Wants(1):
	case k.slots.packed:
		k.bits = executor.Of[uint32](c.Out(1, (x.Len()+31)/32))
	case k.p.Out[1] == graph.Bool:
		k.mask = c.Out(1, x.Shape...).Data
	default:
		k.oldMask = c.Out(1, x.Shape...)
	}
}

// Range computes elements.
func (k *dropoutKernel[T]) Range(lo, hi int) {
	var keep [chunkLen]uint32
	for i := lo; i < hi; i += chunkLen {
		j := min(i+chunkLen, hi)
		w := keep[:j-i]
		switch {
		case k.drawing:
			k.keep(w, i)
		case k.mask != nil || k.bits != nil:
			for n := range w {
				w[n] = math.MaxUint32
			}
		}
		if k.y != nil {
			k.chunk(i, j, w)
		}
		switch {
		case k.mask != nil:
			packBytes(k.mask[i:j], w)
		case k.bits != nil:
			packBits(k.bits[i/32:], w)
		case k.oldMask != nil:
			k.oldOnes(i, j)
		}
	}
}

// chunk computes the elements lo..hi-1 of y.
func (k *dropoutKernel[T]) chunk(lo, hi int, keep []uint32) {
	var xb, yb, rb [chunkLen]T
	x := chunkIn(k.dtype, k.x, lo, hi, xb[:])
	if k.bias != nil {
		k.addBias(xb[:hi-lo], x, lo)
		x = xb[:hi-lo]
	}
	y := chunkOut(k.dtype, k.y, lo, hi, yb[:])
	if k.drawing {
		selectScaled(y, x, keep, k.scale)
	} else {
		copy(y, x)
	}
	if k.residual != nil {
		r := chunkIn(k.dtype, k.residual, lo, hi, rb[:])
		for i, v := range r {
			y[i] += v
		}
	}
	chunkStore(k.dtype, k.y, lo, y)
}

// addBias sets dst[i] = x[i] + bias[(first+i) mod period].
func (k *dropoutKernel[T]) addBias(dst, x []T, first int) {
	var bb [chunkLen]T
	for at := first % k.period; len(x) > 0; at = 0 {
		n := min(k.period-at, len(x))
		b := chunkIn(k.dtype, k.bias, at, at+n, bb[:])
		for i, v := range x[:n] {
			dst[i] = v + b[i]
		}
		dst, x = dst[n:], x[n:]
	}
}

// oldOnes fills a mask of floats with ones: operator sets below 12 have no training mode.
func (k *dropoutKernel[T]) oldOnes(lo, hi int) {
	var buf [chunkLen]T
	m := chunkOut(k.oldMask.DType, k.oldMask.Data, lo, hi, buf[:])
	for i := range m {
		m[i] = 1
	}
	chunkStore(k.oldMask.DType, k.oldMask.Data, lo, m)
}

func sameDims(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i, d := range a {
		if d != b[i] {
			return false
		}
	}
	return true
}

// endsWithDims reports whether tail, less leading ones, is the end of dims.
func endsWithDims(dims, tail []int) bool {
	for len(tail) > 0 && tail[0] == 1 {
		tail = tail[1:]
	}
	return len(tail) <= len(dims) && sameDims(dims[len(dims)-len(tail):], tail)
}
