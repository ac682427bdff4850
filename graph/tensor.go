package graph

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// TensorData is a tensor whose contents the file holds: an initializer or an attribute. Contents
// are read on demand, so a model's weights cost no memory before their first use.
type TensorData struct {
	Name     string
	DType    DType
	Dims     []int64
	Doc      string
	Source   Source    // contents of a numeric tensor
	Strings  []string  // contents of a string tensor
	External *External // where the contents lie when they are outside the file
	Wire     []byte    // encoded form, nil once changed
}

// Source gives the contents of a tensor as ONNX's raw_data has them: elements in
// row-major order, little-endian, elements of less than a byte packed.
type Source interface {
	// Bytes returns the contents. The slice may be a read-only mapping of the
	// file: do not edit it.
	Bytes() ([]byte, error)
}

// External is the place of a tensor in another file next to the model.
type External struct {
	Location string
	Offset   int64
	Length   int64 // -1 where the file does not say: up to the tensor's size
	Checksum string
}

// Raw is a Source in memory.
type Raw []byte

// Bytes returns the contents.
func (r Raw) Bytes() ([]byte, error) { return r, nil }

// Sparse is a tensor in coordinate form; Values.Name is its name.
type Sparse struct {
	Dims    []int64
	Values  *TensorData
	Indices *TensorData
	Wire    []byte // encoded form, nil once changed
}

// Type returns the tensor's type.
func (t *TensorData) Type() Type { return Tensor(t.DType, Ints(t.Dims...)) }

// Elements returns the number of elements, or an error when a dim is negative
// or the product leaves int64.
func (t *TensorData) Elements() (int64, error) {
	n := uint64(1)
	for _, d := range t.Dims {
		if d < 0 {
			return 0, fmt.Errorf("tensor %q: dim %d is negative", t.Name, d)
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("tensor %q: dims %v hold more than 2^63 elements", t.Name, t.Dims)
		}
		n = lo
	}
	return int64(n), nil
}

// Bytes returns the size of the contents in bytes, or an error as Elements does. A string tensor
// has no such size.
func (t *TensorData) Bytes() (int64, error) {
	n, err := t.Elements()
	if err != nil {
		return 0, err
	}
	hi, lo := bits.Mul64(uint64(n), uint64(t.DType.Bits()))
	if hi != 0 || lo > math.MaxInt64-7 {
		return 0, fmt.Errorf("tensor %q: dims %v of %v hold more than 2^63 bits", t.Name, t.Dims, t.DType)
	}
	return int64((lo + 7) / 8), nil
}

// contents returns the raw contents after checking their length.
func (t *TensorData) contents() ([]byte, int, error) {
	n, err := t.Elements()
	if err != nil {
		return nil, 0, err
	}
	if n == 0 {
		return nil, 0, nil
	}
	if t.Source == nil {
		return nil, 0, fmt.Errorf("tensor %q (%v%v): no contents", t.Name, t.DType, t.Dims)
	}
	want, err := t.Bytes()
	if err != nil {
		return nil, 0, err
	}
	raw, err := t.Source.Bytes()
	if err != nil {
		return nil, 0, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if int64(len(raw)) != want {
		return nil, 0, fmt.Errorf("tensor %q (%v%v): has %d bytes, wanted %d", t.Name, t.DType, t.Dims, len(raw), want)
	}
	return raw, int(n), nil
}

// Int64s returns the elements of an integer or bool tensor.
func (t *TensorData) Int64s() ([]int64, error) {
	width := t.DType.Bits()
	if !(t.DType.IsInteger() || t.DType == Bool) || width < 8 {
		return nil, fmt.Errorf("tensor %q: has type %v, wanted integers", t.Name, t.DType)
	}
	raw, n, err := t.contents()
	if err != nil {
		return nil, err
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = t.int64At(raw, i)
	}
	return out, nil
}

func (t *TensorData) int64At(raw []byte, i int) int64 {
	switch t.DType {
	case Int64, Uint64:
		return int64(binary.LittleEndian.Uint64(raw[8*i:]))
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(raw[4*i:])))
	case Uint32:
		return int64(binary.LittleEndian.Uint32(raw[4*i:]))
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(raw[2*i:])))
	case Uint16:
		return int64(binary.LittleEndian.Uint16(raw[2*i:]))
	case Int8:
		return int64(int8(raw[i]))
	}
	return int64(raw[i]) // Uint8, Bool
}

// Float64s returns the elements of a float or double tensor.
func (t *TensorData) Float64s() ([]float64, error) {
	if t.DType != Float32 && t.DType != Float64 {
		return nil, fmt.Errorf("tensor %q: has type %v, wanted float or double", t.Name, t.DType)
	}
	raw, n, err := t.contents()
	if err != nil {
		return nil, err
	}
	out := make([]float64, n)
	for i := range out {
		if t.DType == Float32 {
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		} else {
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	}
	return out, nil
}

// Int64Tensor makes a tensor of int64 elements.
func Int64Tensor(name string, dims []int64, elems ...int64) *TensorData {
	raw := make([]byte, 0, 8*len(elems))
	for _, e := range elems {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(e))
	}
	return &TensorData{Name: name, DType: Int64, Dims: dims, Source: Raw(raw)}
}

// Float32Tensor makes a tensor of float32 elements.
func Float32Tensor(name string, dims []int64, elems ...float32) *TensorData {
	raw := make([]byte, 0, 4*len(elems))
	for _, e := range elems {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(e))
	}
	return &TensorData{Name: name, DType: Float32, Dims: dims, Source: Raw(raw)}
}
