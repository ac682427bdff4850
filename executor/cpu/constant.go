package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/executor/small"
	"memopt/graph"
	"memopt/internal/half"
	"memopt/internal/memlimit"
)

// moveElementOf returns a number as an element of a type. ok is false for types without
// such numbers.
func moveElementOf(d graph.DType, v float64) (e [8]byte, ok bool) {
	var bits uint64
	switch d {
	case graph.Float32:
		bits = uint64(math.Float32bits(float32(v)))
	case graph.Float64:
		bits = math.Float64bits(v)
	case graph.Float16:
		bits = uint64(half.Float16From(float32(v)))
	case graph.BFloat16:
		bits = uint64(half.BFloat16From(float32(v)))
	case graph.Int8, graph.Int16, graph.Int32, graph.Int64, graph.Bool,
		graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64:
		bits = uint64(int64(v))
	default:
		return e, false
	}
	// The lower bytes come first: bytes beyond the element's size are ignored.
	binary.LittleEndian.PutUint64(e[:], bits)
	return e, true
}

// constantKernel gives its value in every run.
// https://onnx.ai/onnx/operators/onnx__Constant.html
type constantKernel struct {
	wholeCopy
	shape []int
	data  []byte
}

func newConstant(p *executor.Prep) (executor.Kernel, error) {
	for i := range p.Node.Attrs {
		k, d, err := constantForm(&p.Node.Attrs[i])
		if err != nil {
			return nil, p.Errorf("attribute %s: %w", p.Node.Attrs[i].Name, err)
		}
		if k == nil {
			continue
		}
		if d == graph.String {
			return nil, p.Unsupported("strings are not supported")
		}
		if p.Wants(0) && p.Out[0] != d {
			return nil, p.Errorf("output 0 has type %v, wanted %v", p.Out[0], d)
		}
		if !small.IsPacked(d) {
			_, err = moveBytes(p, d)
		}
		return k, err
	}
	return nil, p.Errorf("has no value")
}

// constantForm returns the kernel of an attribute that holds a value, or nil for others.
func constantForm(a *graph.Attr) (k *constantKernel, d graph.DType, err error) {
	switch a.Name {
	case "value", "sparse_value", "value_int", "value_ints", "value_float", "value_floats", "value_string",
		"value_strings":
	default:
		return nil, 0, nil
	}
	switch v := a.Value.(type) {
	case *graph.TensorData:
		if v == nil {
			return nil, 0, fmt.Errorf("is empty")
		}
		if v.DType == graph.String {
			return &constantKernel{}, graph.String, nil
		}
		data, err := moveTensorBytes(v)
		return &constantKernel{shape: operand.List(nil, v.Dims), data: data}, v.DType, err
	case *graph.Sparse:
		return sparseConstant(v)
	case int64:
		return &constantKernel{data: executor.Memory([]int64{v})}, graph.Int64, nil
	case []int64:
		return &constantKernel{shape: []int{len(v)}, data: executor.Memory(v)}, graph.Int64, nil
	case float32:
		return &constantKernel{data: executor.Memory([]float32{v})}, graph.Float32, nil
	case []float32:
		return &constantKernel{shape: []int{len(v)}, data: executor.Memory(v)}, graph.Float32, nil
	case string, []string:
		return &constantKernel{}, graph.String, nil
	}
	return nil, 0, fmt.Errorf("holds a %T", a.Value)
}

// moveTensorBytes returns the contents of a tensor of a file.
func moveTensorBytes(t *graph.TensorData) ([]byte, error) {
	n, err := t.Bytes()
	if err != nil || n == 0 {
		return nil, err
	}
	if t.Source == nil {
		return nil, fmt.Errorf("tensor %q has no contents", t.Name)
	}
	raw, err := t.Source.Bytes()
	if err == nil && int64(len(raw)) != n {
		err = fmt.Errorf("tensor %q has %d bytes, wanted %d", t.Name, len(raw), n)
	}
	return raw, err
}

// maxSparse is the largest size in bytes of a sparse constant that is kept dense.
const maxSparse = 1 << 30

// sparseConstant puts the values of a sparse tensor into zeros. Indices are places in the
// flat array, or one row per value with a place per axis.
func sparseConstant(s *graph.Sparse) (*constantKernel, graph.DType, error) {
	if s == nil || s.Values == nil {
		return nil, 0, fmt.Errorf("has no values")
	}
	k := &constantKernel{shape: operand.List(nil, s.Dims)}
	total, ok := executor.Bytes(s.Values.DType, k.shape)
	if !ok || total > maxSparse {
		return nil, 0, fmt.Errorf("has dims %v", s.Dims)
	}
	if err := memlimit.Check(int64(total), "the dense form of a sparse tensor of dims %v", s.Dims); err != nil {
		return nil, 0, err
	}
	values, err := moveTensorBytes(s.Values)
	if err != nil {
		return nil, 0, err
	}
	size := s.Values.DType.Bits() / 8
	if small.IsPacked(s.Values.DType) {
		return nil, 0, fmt.Errorf("sparse values of type %v, of which a byte holds several, are not supported",
			s.Values.DType)
	}
	if size == 0 || len(values) == 0 {
		k.data = make([]byte, total)
		return k, s.Values.DType, nil
	}
	if s.Indices == nil {
		return nil, 0, fmt.Errorf("has values and no indices")
	}
	at, err := s.Indices.Int64s()
	if err != nil {
		return nil, 0, err
	}
	n := len(values) / size
	k.data = make([]byte, total)
	for i := range n {
		o, err := sparseOffset(k.shape, at, i, n)
		if err != nil {
			return nil, 0, err
		}
		copy(k.data[o*size:], values[i*size:(i+1)*size])
	}
	return k, s.Values.DType, nil
}

// sparseOffset returns the place of value i of n in the flat array.
func sparseOffset(shape []int, at []int64, i, n int) (int, error) {
	switch len(at) {
	case n:
		if o := at[i]; o >= 0 && o < int64(product(shape)) {
			return int(o), nil
		}
		return 0, fmt.Errorf("index %d is outside the shape %v", at[i], shape)
	case n * len(shape):
		o := 0
		for j, d := range shape {
			x := at[i*len(shape)+j]
			if x < 0 || x >= int64(d) {
				return 0, fmt.Errorf("index %d is outside the shape %v", x, shape)
			}
			o = o*d + int(x)
		}
		return o, nil
	}
	return 0, fmt.Errorf("has %d values and %d indices for the shape %v", n, len(at), shape)
}

// Run copies the value.
func (k *constantKernel) Run(c *executor.Ctx) error {
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	return k.copyUnlessSame(c, y.Data, k.data)
}

// constantOfShape fills a tensor of the shape that input 0 lists with one value.
// https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
type constantOfShape struct {
	moveFiller
	bytes int
	elem  [8]byte
	shape []int
}

func newConstantOfShape(p *executor.Prep) (executor.Kernel, error) {
	k := &constantOfShape{bytes: 4}
	d := graph.Float32
	if p.Node.Attr("value") != nil {
		t := p.Node.TensorAttr("value")
		if t == nil {
			return nil, p.Errorf("attribute value is not a tensor")
		}
		if n, err := t.Elements(); err != nil || n != 1 {
			return nil, p.Errorf("attribute value has dims %v, wanted one element", t.Dims)
		}
		d = t.DType
		data, err := moveTensorBytes(t)
		if err != nil {
			return nil, p.Errorf("attribute value: %w", err)
		}
		if err := k.set(p, d, data); err != nil {
			return nil, err
		}
	}
	if p.Wants(0) && p.Out[0] != d {
		return nil, p.Errorf("output 0 has type %v, wanted %v", p.Out[0], d)
	}
	return k, nil
}

// set reads the element from memory.
func (k *constantOfShape) set(p *executor.Prep, d graph.DType, data []byte) (err error) {
	if !small.IsPacked(d) {
		if k.bytes, err = moveBytes(p, d); err == nil {
			k.elem = moveElement(data, 0, k.bytes)
		}
		return err
	}
	k.bytes = 1
	for i := range 8 / d.Bits() {
		small.SetCode(d, k.elem[:1], i, small.Code(d, data, 0))
	}
	return nil
}

// Run fills the output.
func (k *constantOfShape) Run(c *executor.Ctx) error {
	y, shape, err := operand.OutListed(c, 0, k.shape)
	k.shape = shape
	if y == nil {
		return err
	}
	k.run(c, y.Data, k.bytes, k.elem)
	if n := y.Len(); n > 0 && small.IsPacked(y.DType) { // bits behind the last element are 0
		small.SetCode(y.DType, y.Data, n-1, small.Code(y.DType, k.elem[:], 0))
	}
	return nil
}

// eyeLike is a matrix like the input with ones on diagonal k, which is above the main one if k is
// positive.
// https://onnx.ai/onnx/operators/onnx__EyeLike.html
type eyeLike struct {
	moveFiller
	bytes int
	k     int64
	one   [8]byte
}

func newEyeLike(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0); err != nil {
		return nil, err
	}
	k := &eyeLike{k: p.Node.Int("k", 0)}
	if !p.Wants(0) {
		return k, nil
	}
	var err error
	if k.bytes, err = moveBytes(p, p.Out[0]); err != nil {
		return nil, err
	}
	var ok bool
	if k.one, ok = moveElementOf(p.Out[0], 1); !ok {
		return nil, p.Unsupported("no kernel for output type %v", p.Out[0])
	}
	return k, nil
}

// Run clears the matrix and sets the diagonal.
func (k *eyeLike) Run(c *executor.Ctx) error {
	y, err := operand.OutMatrix(c)
	if y == nil {
		return err
	}
	k.zero(c, y.Data)
	rows, cols := int64(y.Shape[0]), int64(y.Shape[1])
	if k.k >= cols || k.k <= -rows {
		return nil
	}
	for r := max(0, -k.k); r < rows && r+k.k < cols; r++ {
		at := int(r*cols+r+k.k) * k.bytes
		copy(y.Data[at:at+k.bytes], k.one[:])
	}
	return nil
}
