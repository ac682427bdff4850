package cpu

import (
	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
	"memopt/graph/op"
)

// isSmall reports whether Go has no type for elements of a type of 8 bits or less.
func isSmall(d graph.DType) bool { return small.IsFloat(d) || small.IsPacked(d) }

// smallCast converts from or to a type of 8 bits or less that Go has no type for, a chunk at a time.
// Elements go through up to two types that have conversions: from small floating-point types through
// float32, to them through float64, so that they are rounded once; integers of less than a byte through
// bytes. As other integers they take the lower bits of wider ones and, of floating-point numbers out of
// their range, the nearest number in it.
//
// https://onnx.ai/onnx/operators/onnx__Cast.html
type smallCast struct {
	from, to graph.DType
	next     elemConvert // from the type in between to that of the result
	// the types of these
	source, result graph.DType
	encoder        small.Encoder
	clamp          bool

	n    int
	x, y []byte
}

func newSmallCast(p *executor.Prep, from, to graph.DType) (executor.Kernel, error) {
	k := &smallCast{from: from, to: to, source: through(from, graph.Float32), result: through(to, graph.Float64)}
	k.next = elemConversion(k.source, k.result)
	k.clamp = small.IsPacked(to) && k.source.IsFloat()
	rounding, saturate := small.Up, true
	if p.Node.Kind == op.Cast || p.Node.Kind == op.CastLike {
		saturate = p.Node.Int("saturate", 1) != 0
		switch mode := p.Node.Str("round_mode", "up"); mode {
		case "up":
		case "down":
			rounding = small.Down
		case "nearest":
			rounding = small.Nearest
		default:
			return nil, p.Errorf("attribute round_mode is %q, wanted up, down or nearest", mode)
		}
	}
	k.encoder = small.NewEncoder(to, saturate, rounding)
	return k, nil
}

// through returns a type with conversions that has all elements of a type.
func through(d, float graph.DType) graph.DType {
	if small.IsFloat(d) {
		return float
	}
	return small.Unpacked(d)
}

// Run converts.
func (k *smallCast) Run(c *executor.Ctx) error {
	x := c.In(0)
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	reserveBuffers(c)
	k.n, k.x, k.y = x.Len(), x.Data, y.Data
	c.Parallel((k.n+chunkLen-1)/chunkLen, 8, k)
	return nil
}

// Range converts chunks.
func (k *smallCast) Range(lo, hi int) {
	m := takeBuffers()
	defer m.giveBack()
	source := executor.Memory(elemFloats[float64](&m.b[0], chunkLen))
	result := executor.Memory(elemFloats[float64](&m.b[1], chunkLen))
	for i := lo; i < hi; i++ {
		first := i * chunkLen
		n := min(chunkLen, k.n-first)
		if k.from == k.to {
			at, bits := first*k.from.Bits()/8, n*k.from.Bits()
			copy(k.y[at:at+(bits+7)/8], k.x[at:])
			continue
		}
		x := k.load(source, first, n)
		if k.next != nil {
			r := result[:n*k.result.Bits()/8]
			k.next(r, x)
			x = r
		}
		k.store(x, first, n)
	}
}

// load returns n elements of the source.
func (k *smallCast) load(buf []byte, first, n int) []byte {
	switch size := k.source.Bits() / 8; {
	case small.IsFloat(k.from):
		loadSmall(executor.Cast[float32](buf)[:n], k.from, k.x, first)
		return buf[:n*size]
	case small.IsPacked(k.from):
		small.Unpack(k.from, buf[:n], k.x, first)
		return buf[:n]
	default:
		return k.x[first*size : (first+n)*size]
	}
}

// store stores n elements of the result.
func (k *smallCast) store(x []byte, first, n int) {
	switch size := k.result.Bits() / 8; {
	case small.IsFloat(k.to):
		for i, v := range executor.Cast[float64](x)[:n] {
			small.SetCode(k.to, k.y, first+i, k.encoder.Code(v))
		}
	case small.IsPacked(k.to):
		if k.clamp {
			k.limit(x)
		}
		small.Pack(k.to, k.y, first, x)
	default:
		copy(k.y[first*size:], x)
	}
}

// limit sets bytes to the nearest number that the result's type has.
func (k *smallCast) limit(x []byte) {
	least, most := small.Limits(k.to)
	for i, b := range x {
		v := int32(b)
		if k.result == graph.Int8 {
			v = int32(int8(b))
		}
		x[i] = byte(min(max(v, least), most))
	}
}
