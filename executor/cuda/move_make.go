package cuda

import (
	enc "encoding/binary"
	"math"

	"memopt/executor"
	"memopt/executor/half"
	"memopt/executor/operand"
	"memopt/graph"
)

// repeated returns eight bytes of an element of a size over and over.
func repeated(value uint64, size int) uint64 {
	for ; size < 8; size *= 2 {
		value = value&(1<<(8*size)-1) | value<<(8*size)
	}
	return value
}

// elementBits returns an element of up to eight bytes, in the low ones.
func elementBits(element []byte) uint64 {
	var e [8]byte
	copy(e[:], element)
	return enc.LittleEndian.Uint64(e[:])
}

// bitsOf returns a number as an element of a type. ok is false for types without such numbers.
func bitsOf(t graph.DType, v float64) (bits uint64, ok bool) {
	switch t {
	case graph.Float32:
		return uint64(math.Float32bits(float32(v))), true
	case graph.Float64:
		return math.Float64bits(v), true
	case graph.Float16:
		return uint64(half.Float16From(float32(v))), true
	case graph.BFloat16:
		return uint64(half.BFloat16From(float32(v))), true
	case graph.Int8, graph.Int16, graph.Int32, graph.Int64, graph.Bool,
		graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64:
		return uint64(int64(v)), true
	}
	return 0, false
}

// filler sets all elements of memory to one value.
type filler struct {
	*launch
	bytes int
	value uint64 // of which bytes bytes count
}

func newFiller(d *Device, p *executor.Prep, size int, value uint64) (filler, error) {
	if size == 0 {
		return filler{}, noTypes(p)
	}
	l, err := d.launch("movefill", "fill_bytes")
	return filler{l, size, value}, err
}

func (f *filler) fill(dst []byte) error {
	v := repeated(f.value, f.bytes)
	if v == 0 {
		if len(dst) == 0 {
			return nil
		}
		return f.d.Memory().Fill(dst, 0)
	}
	a := f.begin()
	a.Out(dst)
	a.Int(len(dst))
	a.Uint64(v)
	return f.line(len(dst), 64)
}

// constantOf fills a tensor of the shape that input 0 lists with one value.
type constantOf struct {
	filler
	shape []int
}

// newConstantOfShape makes the kernel of ConstantOfShape.
func newConstantOfShape(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size, value := 4, uint64(0)
	if t := p.Node.TensorAttr("value"); t != nil {
		if size = operand.ElementBytes(t.DType); size == 0 || t.Source == nil {
			return nil, noTypes(p)
		}
		raw, err := t.Source.Bytes()
		if err != nil {
			return nil, p.Errorf("attribute value: %w", err)
		}
		value = elementBits(raw[:min(size, len(raw))])
	}
	f, err := newFiller(d, p, size, value)
	return &constantOf{filler: f}, err
}

// Run fills the output.
func (k *constantOf) Run(c *executor.Ctx) error {
	y, shape, err := operand.OutListed(c, 0, k.shape)
	k.shape = shape
	if y == nil {
		return err
	}
	return k.fill(y.Data)
}

// eye is a matrix like the input with ones in diagonal k.
type eye struct {
	*launch
	diag  int
	value uint64
}

// newEyeLike makes the kernel of EyeLike.
func newEyeLike(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if !p.Wants(0) || operand.ElementBytes(p.Out[0]) == 0 {
		return nil, noTypes(p)
	}
	one, ok := bitsOf(p.Out[0], 1)
	if !ok {
		return nil, p.Unsupported("no CUDA kernel for output type %v", p.Out[0])
	}
	l, err := d.launch("movefill", "eye_"+sizeName(operand.ElementBytes(p.Out[0])))
	return &eye{l, int(p.Node.Int("k", 0)), one}, err
}

// Run makes the matrix.
func (k *eye) Run(c *executor.Ctx) error {
	y, err := operand.OutMatrix(c)
	if y == nil {
		return err
	}
	a := k.begin()
	a.Out(y.Data)
	a.Int(y.Len())
	a.Int(k.diag)
	a.Uint64(k.value)
	a.Int(y.Shape[1])
	return k.line(y.Len(), 1)
}

// trilu keeps the upper or lower triangle of the matrices in the last two axes, up to and with
// diagonal k (input 1).
type trilu struct {
	*launch
	operand.Triangle
}

// newTrilu makes the kernel of Trilu.
func newTrilu(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size := operand.ElementBytes(p.DType(0))
	if size == 0 {
		return nil, noTypes(p)
	}
	l, err := d.launch("movefill", "trilu_"+sizeName(size))
	return &trilu{l, operand.NewTriangle(p)}, err
}

// Run copies and clears.
func (k *trilu) Run(c *executor.Ctx) error {
	y, err := k.Begin(c)
	if y == nil {
		return err
	}
	x := c.In(0)
	a := k.begin()
	a.In(x.Data)
	a.Out(y.Data)
	a.Int(y.Len())
	a.Int(k.Diag)
	packAxes(a, 2, func(i int) int { return x.Shape[x.Rank()-1-i] })
	a.Uint32(flag(k.Upper))
	return k.line(y.Len(), 1)
}

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
		return c.Errorf("from %v to %v by %v is no range", start.real, limit.real, delta.real)
	}
	y := c.Out(0, n)
	if y == nil {
		return nil
	}
	a := k.begin()
	a.Out(y.Data)
	a.Int(n)
	a.Int(int(start.whole))
	a.Int(int(delta.whole))
	a.Float64(start.real)
	a.Float64(delta.real)
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

// oneHot inserts an axis of length depth, in which the place that the input names has the second of
// two values and all others the first.
type oneHot struct {
	*launch
	axis int64
	wide uint32
	out  []int
}

// newOneHot makes the kernel of OneHot.
func newOneHot(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size, t := operand.ElementBytes(p.DType(2)), p.DType(0)
	depth := p.DType(1)
	if size == 0 || t != graph.Int64 && t != graph.Int32 || depth != graph.Int64 && depth != graph.Int32 {
		return nil, noTypes(p)
	}
	l, err := d.launch("movefill", "onehot_"+sizeName(size))
	k := &oneHot{launch: l, axis: p.Node.Int("axis", -1)}
	if t == graph.Int64 {
		k.wide = 1
	}
	return k, err
}

// Run fills the output.
func (k *oneHot) Run(c *executor.Ctx) error {
	x, values := c.In(0), c.In(2)
	if c.In(1).Len() != 1 || values.Len() != 2 {
		return c.Errorf("inputs 1 and 2 are %v and %v, wanted one element and two", c.In(1), values)
	}
	depth, err := operand.Int(c, 1, 0)
	if err != nil {
		return err
	}
	if depth < 0 {
		return c.Errorf("input 1, the depth, is %d", depth)
	}
	axis, err := operand.Axis(c, k.axis, x.Rank()+1)
	if err != nil {
		return err
	}
	k.out = append(append(append(k.out[:0], x.Shape[:axis]...), depth), x.Shape[axis:]...)
	y := c.Out(0, k.out...)
	if y == nil {
		return nil
	}
	a := k.begin()
	a.In(x.Data)
	a.In(values.Data)
	a.Out(y.Data)
	a.Int(y.Len())
	a.Int(depth)
	a.Int(elements(x.Shape[axis:]))
	a.Uint32(k.wide)
	return k.line(y.Len(), 1)
}
