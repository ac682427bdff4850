package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
)

// Quantization: y = saturate(round(x/scale) + zero_point), rounding halves to even;
// dequantization: y = (x - zero_point)*scale. There is one scale and zero point for the whole
// tensor, or one for each index on an axis, or one for each block of block_size elements
// along it.
// https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
// https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html

// quantScales maps elements to scales. Elements are rows of length elements.
type quantScales struct {
	axis, block int // attributes

	scales []float32
	zeros  []int32 // nil means all 0

	n, length int
	period    int  // row r is index r mod period on the axis
	perIndex  int  // scales per index
	each      bool // an element of a row has a scale of its own
	// With block_size, an index on the axis belongs to a block. along says that the
	// rows themselves are cut into blocks.
	blocks int
	along  bool
}

// newQuantScales reads the attributes.
func newQuantScales(p *executor.Prep) (q quantScales, err error) {
	q.axis, q.block = int(p.Node.Int("axis", 1)), 0
	if p.Version >= 21 {
		q.block = int(p.Node.Int("block_size", 0))
	}
	if q.block < 0 {
		return q, p.Errorf("attribute block_size is %d, wanted no negative number", q.block)
	}
	if d := p.DType(1); d != graph.Float32 && !isHalf(d) && d != graph.Float8E8M0 {
		return q, p.Unsupported("no kernel for scales of type %v", p.DType(1))
	}
	return q, nil
}

// set reads the scales and zero points of a run, for elements of shape x.
func (q *quantScales) set(c *executor.Ctx, x []int, version int) error {
	s, z := c.In(1), c.In(2)
	if z != nil && !sameDims(z.Shape, s.Shape) && z.Len() != s.Len() {
		return c.Errorf("the zero point is %v, the scale %v", z, s)
	}
	q.scales, q.zeros = quantFloats(q.scales, s), q.zeros[:0]
	switch {
	case z == nil:
	case small.IsFloat(z.DType):
		for i := range z.Len() {
			if v := small.Values(z.DType)[small.Code(z.DType, z.Data, i)]; v != 0 {
				return c.Errorf("zero point %d is %v: those of type %v are 0", i, v, z.DType)
			}
		}
	default:
		q.zeros = appendInts(q.zeros, z)
	}
	q.n = product(x)
	if s.Len() == 1 && q.block == 0 {
		q.layout(1, 0, q.n, false)
		return nil
	}
	axis := q.axis
	if axis < 0 {
		axis += len(x)
	}
	if version < 13 || axis < 0 || axis >= len(x) {
		return c.Errorf("the scale is %v, attribute axis %d and the data's shape %v", s, q.axis, x)
	}
	inner := product(x[axis+1:])
	if q.block > 0 {
		return q.blocked(c, x, axis, inner)
	}
	if s.Rank() != 1 || s.Shape[0] != x[axis] {
		return c.Errorf("the scale is %v, wanted %d numbers for axis %d of shape %v", s, x[axis], axis, x)
	}
	if inner == 1 {
		q.layout(1, 0, x[axis], true)
	} else {
		q.layout(x[axis], 1, inner, false)
	}
	return nil
}

func (q *quantScales) layout(period, perIndex, length int, each bool) {
	q.period, q.perIndex, q.length, q.each = period, perIndex, length, each
	q.blocks, q.along = 0, false
}

// blocked lays out scales of the data's rank, with fewer elements on axis.
func (q *quantScales) blocked(c *executor.Ctx, x []int, axis, inner int) error {
	s := c.In(1)
	blocks := (x[axis] + q.block - 1) / q.block
	for i := range x {
		want := x[i]
		if i == axis {
			want = blocks
		}
		if s.Rank() != len(x) || s.Shape[i] != want {
			return c.Errorf("the scale is %v: block_size %d on axis %d of shape %v wants another shape",
				s, q.block, axis, x)
		}
	}
	if inner == 1 {
		q.layout(1, 0, x[axis], false)
	} else {
		q.layout(x[axis], inner, inner, true)
	}
	q.blocks, q.along = blocks, inner == 1
	return nil
}

// quantPart is a part of a row, short enough for the stack.
type quantPart struct {
	lo, hi int // elements
	scales []float32
	zeros  []int32
	one    bool // one scale for all
}

// part returns a part that starts with element at and ends at hi or before.
func (q *quantScales) part(at, hi int) quantPart {
	row, in := at/q.length, at%q.length
	p := quantPart{lo: at, hi: min(hi, at+min(chunkLen, q.length-in)), one: !q.each}
	first, n := row%q.period*q.perIndex, 1
	switch {
	case q.along:
		first = row*q.blocks + in/q.block
		p.hi = min(p.hi, at+q.block-in%q.block)
	case q.blocks > 0:
		first = (row/q.period*q.blocks + row%q.period/q.block) * q.perIndex
	}
	if q.each {
		first += in
		n = p.hi - p.lo
	}
	p.scales = q.scales[first : first+n]
	if len(q.zeros) > 0 {
		p.zeros = q.zeros[first : first+n]
	}
	return p
}

// quantFloats sets dst to the elements of a float tensor.
func quantFloats(dst []float32, t *executor.Tensor) []float32 {
	n := t.Len()
	if cap(dst) < n {
		dst = make([]float32, n)
	}
	dst = dst[:n]
	if small.IsFloat(t.DType) {
		loadSmall(dst, t.DType, t.Data, 0)
		return dst
	}
	for i := 0; i < n; i += chunkLen {
		j := min(i+chunkLen, n)
		copy(dst[i:j], chunkIn(t.DType, t.Data, i, j, dst[i:j]))
	}
	return dst
}

// appendInts appends the elements of a tensor of integers of at most 32 bits.
func appendInts(dst []int32, t *executor.Tensor) []int32 {
	n := len(dst)
	for range t.Len() {
		dst = append(dst, 0)
	}
	loadInts(dst[n:], t.DType, t.Data, 0)
	return dst
}

// loadInts sets dst to the elements first, first+1, ... of integers of at most 32 bits.
func loadInts(dst []int32, d graph.DType, data []byte, first int) {
	switch d {
	case graph.Int8:
		widenInts(dst, executor.Cast[int8](data)[first:])
	case graph.Uint8:
		widenInts(dst, executor.Cast[uint8](data)[first:])
	case graph.Int16:
		widenInts(dst, executor.Cast[int16](data)[first:])
	case graph.Uint16:
		widenInts(dst, executor.Cast[uint16](data)[first:])
	case graph.Int32:
		copy(dst, executor.Cast[int32](data)[first:])
	case graph.Int4, graph.Uint4, graph.Int2, graph.Uint2:
		_, most := small.Limits(d)
		for i := range dst {
			if dst[i] = int32(small.Code(d, data, first+i)); dst[i] > most {
				dst[i] -= 1 << d.Bits()
			}
		}
	}
}

// loadSmall sets dst to the elements first, first+1, ... of floating-point numbers of 8 bits or less.
func loadSmall(dst []float32, d graph.DType, data []byte, first int) {
	values := small.Values(d)
	for i := range dst {
		dst[i] = values[small.Code(d, data, first+i)]
	}
}

func widenInts[S int8 | uint8 | int16 | uint16](dst []int32, src []S) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = int32(v)
	}
}

// storeSaturated stores integers as elements first, first+1, ... of type d, each as the nearest
// value that d has.
func storeSaturated(d graph.DType, data []byte, first int, from []int32) {
	switch d {
	case graph.Int8:
		saturate(executor.Cast[int8](data)[first:], from, math.MinInt8, math.MaxInt8)
	case graph.Uint8:
		saturate(executor.Cast[uint8](data)[first:], from, 0, math.MaxUint8)
	case graph.Int16:
		saturate(executor.Cast[int16](data)[first:], from, math.MinInt16, math.MaxInt16)
	case graph.Uint16:
		saturate(executor.Cast[uint16](data)[first:], from, 0, math.MaxUint16)
	case graph.Int4, graph.Uint4, graph.Int2, graph.Uint2:
		least, most := small.Limits(d)
		for i, v := range from {
			small.SetCode(d, data, first+i, byte(min(max(v, least), most)))
		}
	}
}

func saturate[D int8 | uint8 | int16 | uint16](dst []D, from []int32, low, high int32) {
	dst = dst[:len(from)]
	for i, v := range from {
		dst[i] = D(min(max(v, low), high))
	}
}

// isQuantized reports whether quantized elements of a type have a kernel.
func isQuantized(d graph.DType) bool {
	return d.IsInteger() && d.Bits() <= 16 || small.IsFloat(d) && d != graph.Float8E8M0
}

// roundEven rounds to an integer, halves to even. Numbers beyond the range of 16-bit types may give
// any number out of that range; NaN gives 0. Adding 1.5*2^23 leaves no fractional bits.
func roundEven(v float32) int32 { return roundWithin(v, -1<<20, 1<<20) }

// roundWithin clamps v to low..high, integers of at most 21 bits, and rounds it.
func roundWithin(v, low, high float32) int32 {
	const shift = 3 << 22
	switch {
	case v > high:
		v = high
	case v >= low:
	case v < low:
		v = low
	default:
		v = min(max(0, low), high)
	}
	return int32(math.Float32bits(v+shift)) - shiftBits
}

// shiftBits are the bits of 1.5*2^23.
const shiftBits = 0x4b400000

// quantizeRow stores x/scale, rounded, plus zero as elements first, first+1, ... of type d.
func quantizeRow(d graph.DType, data []byte, first int, x []float32, scale float32, zero int32) {
	switch d {
	case graph.Int8:
		quantizeInto(executor.Cast[int8](data)[first:], x, scale, zero, math.MinInt8, math.MaxInt8)
	case graph.Uint8:
		quantizeInto(executor.Cast[uint8](data)[first:], x, scale, zero, 0, math.MaxUint8)
	case graph.Int16:
		quantizeInto(executor.Cast[int16](data)[first:], x, scale, zero, math.MinInt16, math.MaxInt16)
	case graph.Uint16:
		quantizeInto(executor.Cast[uint16](data)[first:], x, scale, zero, 0, math.MaxUint16)
	case graph.Int4, graph.Uint4, graph.Int2, graph.Uint2:
		least, most := small.Limits(d)
		for i, v := range x {
			n := roundWithin(v/scale, float32(least-zero), float32(most-zero)) + zero
			small.SetCode(d, data, first+i, byte(n))
		}
	}
}

func quantizeInto[D int8 | uint8 | int16 | uint16](dst []D, x []float32, scale float32, zero, low, high int32) {
	dst = dst[:len(x)]
	least, most := float32(low-zero), float32(high-zero)
	for i, v := range x {
		dst[i] = D(roundWithin(v/scale, least, most) + zero)
	}
}
