package cuda

import (
	enc "encoding/binary"
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/internal/half"
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
	value uint64 // its first bytes bytes count
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
	f.begin().Out(dst).Int(len(dst)).Uint64(v)
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
	k.begin().Out(y.Data).Int(y.Len()).Int(k.diag).Uint64(k.value).Int(y.Shape[1])
	return k.line(y.Len(), 1)
}
