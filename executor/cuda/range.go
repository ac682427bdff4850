package cuda

import (
	enc "encoding/binary"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/internal/half"
)

// counter makes start, start+delta, ... up to limit: inputs 0, 2 and 1.
type counter struct {
	*launch
	dtype graph.DType
}

// newRange makes the kernel of Range.
func newRange(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(0)
	switch t {
	case graph.Int32, graph.Int64, graph.Float32, graph.Float64:
	default:
		return nil, noTypes(p)
	}
	l, err := d.launch("movefill", "range_"+suffix(t))
	return &counter{l, t}, err
}

// Run fills the output.
func (k *counter) Run(c *executor.Ctx) error {
	if err := operand.CheckSpan(c); err != nil {
		return err
	}
	start, limit, delta := scalarAt(c.In(0)), scalarAt(c.In(1)), scalarAt(c.In(2))
	if delta.real == 0 {
		return c.Errorf("input 2, the difference, is 0")
	}
	n, ok := rangeLength(k.dtype, start, limit, delta)
	if !ok {
		return c.Errorf("from %v to %v by %v is not a range", start.real, limit.real, delta.real)
	}
	y := c.Out(0, n)
	if y == nil {
		return nil
	}
	k.begin().Out(y.Data).Int(n).Int(int(start.whole)).Int(int(delta.whole)).Float64(start.real).
		Float64(delta.real)
	return k.line(n, 2)
}

// scalar is a number of any type: as an integer where it is one, and as a float.
type scalar struct {
	whole int64
	real  float64
}

// scalarAt returns the first element of a tensor in host memory.
func scalarAt(x *executor.Tensor) scalar {
	switch x.DType {
	case graph.Int64:
		v := executor.Of[int64](x)[0]
		return scalar{v, float64(v)}
	case graph.Int32:
		v := executor.Of[int32](x)[0]
		return scalar{int64(v), float64(v)}
	case graph.Float64:
		return scalar{0, executor.Of[float64](x)[0]}
	case graph.Float16:
		return scalar{0, float64(half.Float16(enc.LittleEndian.Uint16(x.Data)).Float32())}
	case graph.BFloat16:
		return scalar{0, float64(half.BFloat16(enc.LittleEndian.Uint16(x.Data)).Float32())}
	}
	return scalar{0, float64(executor.Of[float32](x)[0])}
}

// rangeLength is the length of a Range of a type.
func rangeLength(t graph.DType, start, limit, delta scalar) (n int, ok bool) {
	if t.IsInteger() {
		return operand.IntSpan(start.whole, limit.whole, delta.whole)
	}
	return operand.FloatSpan(start.real, limit.real, delta.real)
}
