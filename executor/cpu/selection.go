package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// compressKernel keeps the slices along an axis, or without one the elements, whose condition is
// true. Those without a condition are dropped.
// https://onnx.ai/onnx/operators/onnx__Compress.html
type compressKernel struct {
	gatherRows
	flat  bool
	axis  int64
	shape []int
}

func newCompress(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	if p.DType(1) != graph.Bool {
		return nil, p.Errorf("input 1 has type %v, wanted bool", p.DType(1))
	}
	return &compressKernel{
		gatherRows: gatherRows{size: size}, flat: p.Node.Attr("axis") == nil, axis: p.Node.Int("axis", 0),
	}, nil
}

// Workspace holds the offsets of the kept slices.
func (k *compressKernel) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run lists the kept slices and gathers them.
func (k *compressKernel) Run(c *executor.Ctx) error {
	x, cond := c.In(0), c.In(1)
	if cond.Rank() != 1 {
		return c.Errorf("input 1 has shape %v, wanted a list", cond.Shape)
	}
	axis, long := 0, x.Len()
	k.outer, k.inner, k.stride = 1, 1, long
	if !k.flat {
		var err error
		if axis, err = operand.Axis(c, k.axis, x.Rank()); err != nil {
			return err
		}
		long = x.Shape[axis]
		k.outer, k.inner = product(x.Shape[:axis]), product(x.Shape[axis+1:])
		k.stride = long * k.inner
	}
	at := executor.ScratchOf[int64](c, len(cond.Data))[:0]
	for i, keep := range cond.Data[:min(long, len(cond.Data))] {
		if keep != 0 {
			at = append(at, int64(i*k.inner))
		}
	}
	k.index.offsets, k.n = at, len(at)
	k.shape = append(k.shape[:0], k.n)
	if !k.flat {
		k.shape = append(k.shape[:0], x.Shape...)
		k.shape[axis] = k.n
	}
	if y := c.Out(0, k.shape...); y != nil {
		k.run(c, y.Data, x.Data)
	}
	return nil
}

// oneHotKernel inserts an axis of length depth: the place that the input names has the second of
// two values, and all others have the first. For example, place 2 with depth 4 and values 0 and 1
// gives [0 0 1 0]. Negative places count from the end; a place outside sets no element.
// https://onnx.ai/onnx/operators/onnx__OneHot.html
type oneHotKernel struct {
	moveFiller
	axis  int64
	bytes int
	shape []int

	x            *executor.Tensor
	y, on        []byte
	depth, inner int
}

func newOneHot(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveBytes(p, p.DType(2))
	if err != nil {
		return nil, err
	}
	if p.Wants(0) && p.Out[0] != p.DType(2) {
		return nil, p.Errorf("output 0 has type %v, wanted %v as input 2", p.Out[0], p.DType(2))
	}
	for i := range 2 {
		if _, ok := movePlaceOf(&executor.Tensor{DType: p.DType(i), Data: make([]byte, 8)}, 0); !ok {
			return nil, unsupportedTypes(p)
		}
	}
	return &oneHotKernel{axis: p.Node.Int("axis", -1), bytes: size}, nil
}

// Run fills the output with the first value and sets the second.
func (k *oneHotKernel) Run(c *executor.Ctx) error {
	x, values := c.In(0), c.In(2)
	if c.In(1).Len() != 1 || values.Len() != 2 {
		return c.Errorf("inputs 1 and 2 are %v and %v, wanted one element and two", c.In(1), values)
	}
	depth, _ := movePlaceOf(c.In(1), 0)
	if depth < 0 {
		return c.Errorf("input 1, the depth, is %d", depth)
	}
	axis, err := operand.Axis(c, k.axis, x.Rank()+1)
	if err != nil {
		return err
	}
	k.shape = append(append(append(k.shape[:0], x.Shape[:axis]...), int(depth)), x.Shape[axis:]...)
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.run(c, y.Data, k.bytes, moveElement(values.Data, 0, k.bytes))
	k.x, k.y, k.on = x, y.Data, values.Data[k.bytes:2*k.bytes]
	k.depth, k.inner = int(depth), product(x.Shape[axis:])
	c.Parallel(x.Len(), 1<<12, (*oneHotPlaces)(k))
	return nil
}

type oneHotPlaces oneHotKernel

// Range sets the values for the elements lo..hi-1 of the input.
func (k *oneHotPlaces) Range(lo, hi int) {
	depth := int64(k.depth)
	for i := lo; i < hi; i++ {
		v, _ := movePlaceOf(k.x, i)
		if v < 0 {
			v += depth
		}
		if v < 0 || v >= depth {
			continue
		}
		at := ((i/k.inner*k.depth+int(v))*k.inner + i%k.inner) * len(k.on)
		copy(k.y[at:at+len(k.on)], k.on)
	}
}

// movePlaceOf returns element i of a tensor of numbers as an integer; floats are truncated, and
// numbers beyond int64 become one that is out of every range.
func movePlaceOf(x *executor.Tensor, i int) (v int64, ok bool) {
	switch x.DType {
	case graph.Int64:
		return executor.Of[int64](x)[i], true
	case graph.Int32:
		return int64(executor.Of[int32](x)[i]), true
	case graph.Int16:
		return int64(executor.Of[int16](x)[i]), true
	case graph.Int8:
		return int64(executor.Of[int8](x)[i]), true
	case graph.Uint64:
		return int64(min(executor.Of[uint64](x)[i], math.MaxInt64)), true
	case graph.Uint32:
		return int64(executor.Of[uint32](x)[i]), true
	case graph.Uint16:
		return int64(executor.Of[uint16](x)[i]), true
	case graph.Uint8:
		return int64(executor.Of[uint8](x)[i]), true
	case graph.Float32, graph.Float64, graph.Float16, graph.BFloat16:
		f := moveFloatAt(x, i)
		if !(math.Abs(f) < 1<<62) {
			return math.MinInt64, true
		}
		return int64(f), true
	}
	return 0, false
}

// moveFloatAt returns element i of a tensor of floats.
func moveFloatAt(x *executor.Tensor, i int) float64 {
	switch x.DType {
	case graph.Float32:
		return float64(executor.Of[float32](x)[i])
	case graph.Float64:
		return executor.Of[float64](x)[i]
	}
	var f [1]float32
	widen(f[:], x.DType, x.Data[2*i:2*i+2])
	return float64(f[0])
}
