package onnxgo

import (
	"fmt"
	"reflect"

	"gorgonia.org/tensor"

	"memopt/executor"
	"memopt/graph"
)

// kinds are the element types that both sides have.
var kinds = map[reflect.Kind]graph.DType{
	reflect.Float32: graph.Float32, reflect.Float64: graph.Float64, reflect.Bool: graph.Bool,
	reflect.Int8: graph.Int8, reflect.Int16: graph.Int16, reflect.Int32: graph.Int32, reflect.Int64: graph.Int64,
	reflect.Uint8: graph.Uint8, reflect.Uint16: graph.Uint16, reflect.Uint32: graph.Uint32,
	reflect.Uint64: graph.Uint64,
}

func typeOf(t tensor.Tensor) (graph.DType, error) {
	d, ok := kinds[t.Dtype().Kind()]
	if !ok {
		return graph.Undefined, fmt.Errorf("memopt takes no tensors of %v from onnx-go", t.Dtype())
	}
	return d, nil
}

func dimsOf(t tensor.Tensor) []int64 {
	dims := make([]int64, len(t.Shape()))
	for i, d := range t.Shape() {
		dims[i] = int64(d)
	}
	return dims
}

// take copies a tensor of Gorgonia's, which may be a view.
func take(t tensor.Tensor) (*executor.Tensor, error) {
	d, err := typeOf(t)
	if err != nil {
		return nil, err
	}
	if t.RequiresIterator() {
		t = t.(tensor.View).Materialize()
	}
	out := &executor.Tensor{DType: d, Shape: append([]int{}, t.Shape()...)}
	switch v := t.Data().(type) {
	case []float32:
		out.Data = copied(v)
	case []float64:
		out.Data = copied(v)
	case []int8:
		out.Data = copied(v)
	case []int16:
		out.Data = copied(v)
	case []int32:
		out.Data = copied(v)
	case []int64:
		out.Data = copied(v)
	case []uint8:
		out.Data = copied(v)
	case []uint16:
		out.Data = copied(v)
	case []uint32:
		out.Data = copied(v)
	case []uint64:
		out.Data = copied(v)
	case []bool:
		bits := make([]uint8, len(v))
		for i, b := range v {
			if b {
				bits[i] = 1
			}
		}
		out.Data = bits
	default: // a scalar is a number and no slice
		one := reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(v)), 1, 1)
		one.Index(0).Set(reflect.ValueOf(v))
		row, err := take(tensor.New(tensor.WithShape(1), tensor.WithBacking(one.Interface())))
		if err == nil {
			row.Shape = out.Shape
		}
		return row, err
	}
	if len(out.Data) != out.Len()*d.Bits()/8 {
		return nil, fmt.Errorf("%v has %d bytes", out, len(out.Data))
	}
	return out, nil
}

func copied[T executor.Elem](elements []T) []byte {
	return executor.Memory(append([]T(nil), elements...))
}

// contents converts a constant.
func contents(t tensor.Tensor) (*graph.TensorData, error) {
	x, err := take(t)
	if err != nil {
		return nil, err
	}
	return &graph.TensorData{DType: x.DType, Dims: dimsOf(t), Source: graph.Raw(x.Data)}, nil
}

// give converts a result into a tensor of Gorgonia's, with memory of its own.
func give(t *executor.Tensor) (tensor.Tensor, error) {
	var backing any
	switch t.DType {
	case graph.Float32:
		backing = append([]float32(nil), executor.Of[float32](t)...)
	case graph.Float64:
		backing = append([]float64(nil), executor.Of[float64](t)...)
	case graph.Int32:
		backing = append([]int32(nil), executor.Of[int32](t)...)
	case graph.Int64:
		backing = append([]int64(nil), executor.Of[int64](t)...)
	case graph.Uint8:
		backing = append([]uint8(nil), executor.Of[uint8](t)...)
	case graph.Bool:
		bits := make([]bool, t.Len())
		for i, b := range executor.Of[uint8](t)[:t.Len()] {
			bits[i] = b != 0
		}
		backing = bits
	default:
		return nil, fmt.Errorf("onnx-go has no tensors of %v", t.DType)
	}
	return tensor.New(tensor.WithShape(t.Shape...), tensor.WithBacking(backing)), nil
}
