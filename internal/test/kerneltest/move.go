package kerneltest

import (
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// Helpers of the cases of operators that move data. Elements are counted from 1 in the bits of
// their type, so that the first 255 elements all differ.

// moveTypes has a type of each element size.
var moveTypes = []graph.DType{graph.Bool, graph.Float16, graph.Float32, graph.Int64}

// moveCount returns a tensor whose elements have the bits 1, 2, 3 and so on.
func moveCount(d graph.DType, shape ...int) *executor.Tensor {
	t := moveEmpty(d, shape...)
	size := d.Bits() / 8
	for i := range t.Len() {
		for b := range size {
			t.Data[i*size+b] = byte((i + 1) >> (8 * b))
		}
		if d == graph.Bool {
			t.Data[i] = byte(i*7%3) & 1
		}
	}
	return t
}

// moveEmpty returns a tensor of zeros.
func moveEmpty(d graph.DType, shape ...int) *executor.Tensor {
	t := &executor.Tensor{DType: d, Shape: slices.Clone(shape)}
	t.Data = make([]byte, t.Len()*d.Bits()/8)
	return t
}

// movePick makes the tensor whose element at each index is element at(index) of x, or zero where
// that is negative.
func movePick(x *executor.Tensor, shape []int, at func(index []int) int) *executor.Tensor {
	y := moveEmpty(x.DType, shape...)
	size := x.DType.Bits() / 8
	index := make([]int, len(shape))
	for i := range y.Len() {
		n := i
		for k := len(shape) - 1; k >= 0; k-- {
			index[k] = n % shape[k]
			n /= shape[k]
		}
		if from := at(index); from >= 0 {
			copy(y.Data[i*size:(i+1)*size], x.Data[from*size:])
		}
	}
	return y
}

// moveAt returns the place of an index in the flat array of a shape.
func moveAt(shape []int, index ...int) int {
	at := 0
	for k, d := range shape {
		at = at*d + index[k]
	}
	return at
}

// moveLongs returns a list of int64.
func moveLongs(v ...int64) *executor.Tensor {
	return executor.NewTensor(graph.Int64, []int{len(v)}, v...)
}

// moveShorts returns a list of int32.
func moveShorts(v ...int32) *executor.Tensor {
	return executor.NewTensor(graph.Int32, []int{len(v)}, v...)
}

// moveScalar returns an int64 of rank 0.
func moveScalar(v int64) *executor.Tensor {
	return executor.NewTensor(graph.Int64, []int{}, v)
}

// moveFloats returns a float tensor.
func moveFloats(shape []int, v ...float32) *executor.Tensor {
	return executor.NewTensor(graph.Float32, shape, v...)
}

// moveReshaped returns a tensor's elements under another shape.
func moveReshaped(x *executor.Tensor, shape ...int) *executor.Tensor {
	return &executor.Tensor{DType: x.DType, Shape: shape, Data: x.Data}
}

// moveCase is a case with one output.
func moveCase(kind graph.Kind, name string, want *executor.Tensor, attrs []graph.Attr, in ...*executor.Tensor) Case {
	return Case{
		Name: name, Kind: kind, Attrs: attrs, In: in, Out: []graph.DType{want.DType}, Want: []*executor.Tensor{want},
	}
}

// moveFails is a case that ends in an error.
func moveFails(kind graph.Kind, name, message string, attrs []graph.Attr, in ...*executor.Tensor) Case {
	return Case{Name: name, Kind: kind, Attrs: attrs, In: in, Out: []graph.DType{in[0].DType}, Fails: message}
}

// moveOpset makes a case one of an operator set.
func moveOpset(opset int, c Case) Case {
	c.Opset = opset
	c.Name = fmt.Sprintf("%s, opset %d", c.Name, opset)
	return c
}

// moveAttrs lists attributes: name, value, name, value.
func moveAttrs(pairs ...any) []graph.Attr {
	var list []graph.Attr
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, Attr(pairs[i].(string), pairs[i+1]))
	}
	return list
}
