package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
)

// Building blocks for cases of elementwise operators: tensors of numbers given as float64, and
// expected outputs by the plainest computation, which takes every element's coordinates apart.

// elemTypes are all types of numbers.
var elemTypes = []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Int8, graph.Int16,
	graph.Int32,
	graph.Int64, graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64}

// elemFloats are the floating-point types.
var elemFloats = elemTypes[:4]

// elemTensor makes a tensor of any type. Numbers are converted as Go does, and beyond the range of
// the type must not occur.
func elemTensor(d graph.DType, shape []int, v ...float64) *executor.Tensor {
	switch d {
	case graph.Float32:
		return elemOf(d, shape, v, func(x float64) float32 { return float32(x) })
	case graph.Float64:
		return elemOf(d, shape, v, func(x float64) float64 { return x })
	case graph.Float16:
		return elemOf(d, shape, v, func(x float64) half.Float16 { return half.Float16From(float32(x)) })
	case graph.BFloat16:
		return elemOf(d, shape, v, func(x float64) half.BFloat16 { return half.BFloat16From(float32(x)) })
	case graph.Int8:
		return elemOf(d, shape, v, func(x float64) int8 { return int8(x) })
	case graph.Int16:
		return elemOf(d, shape, v, func(x float64) int16 { return int16(x) })
	case graph.Int32:
		return elemOf(d, shape, v, func(x float64) int32 { return int32(x) })
	case graph.Int64:
		return elemOf(d, shape, v, func(x float64) int64 { return int64(x) })
	case graph.Uint16:
		return elemOf(d, shape, v, func(x float64) uint16 { return uint16(x) })
	case graph.Uint32:
		return elemOf(d, shape, v, func(x float64) uint32 { return uint32(x) })
	case graph.Uint64:
		return elemOf(d, shape, v, func(x float64) uint64 { return uint64(x) })
	case graph.Uint8, graph.Bool:
		return elemOf(d, shape, v, func(x float64) uint8 { return uint8(x) })
	}
	panic(fmt.Sprintf("no tensors of type %v", d))
}

func elemOf[T executor.Elem](d graph.DType, shape []int, v []float64, f func(float64) T) *executor.Tensor {
	out := make([]T, len(v))
	for i, x := range v {
		out[i] = f(x)
	}
	return executor.NewTensor(d, shape, out...)
}

// elemAt returns element i of a tensor of any type.
func elemAt(t *executor.Tensor, i int) float64 {
	switch t.DType {
	case graph.Int8:
		return float64(executor.Of[int8](t)[i])
	case graph.Int16:
		return float64(executor.Of[int16](t)[i])
	case graph.Int32:
		return float64(executor.Of[int32](t)[i])
	case graph.Int64:
		return float64(executor.Of[int64](t)[i])
	case graph.Uint16:
		return float64(executor.Of[uint16](t)[i])
	case graph.Uint32:
		return float64(executor.Of[uint32](t)[i])
	case graph.Uint64:
		return float64(executor.Of[uint64](t)[i])
	case graph.Uint8, graph.Bool:
		return float64(t.Data[i])
	}
	v, _ := Float(t, i)
	return v
}

// elemFill makes a tensor of numbers between lo and hi, each different from its neighbours.
func elemFill(d graph.DType, lo, hi float64, shape ...int) *executor.Tensor {
	n := elemCount(shape)
	v := make([]float64, n)
	x := uint32(2463534242 + n)
	for i := range v {
		x = x*1664525 + 1013904223
		v[i] = lo + (hi-lo)*float64(x>>8)/(1<<24)
		if d.IsInteger() {
			v[i] = math.Round(v[i])
		}
	}
	return elemTensor(d, shape, v...)
}

func elemCount(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// elemWant computes f on operands that are stretched to one shape, as a tensor of type d.
func elemWant(d graph.DType, f func(x []float64) float64, in ...*executor.Tensor) *executor.Tensor {
	var shape []int
	for _, t := range in {
		for len(shape) < t.Rank() {
			shape = append([]int{1}, shape...)
		}
		for i, n := range t.Shape {
			if at := &shape[len(shape)-t.Rank()+i]; n != 1 {
				*at = n
			}
		}
	}
	v := make([]float64, elemCount(shape))
	x := make([]float64, len(in))
	for i := range v {
		for j, t := range in {
			x[j] = elemAt(t, elemIndex(t.Shape, shape, i))
		}
		v[i] = f(x)
	}
	return elemTensor(d, shape, v...)
}

// elemIndex returns the index in a tensor of the given shape of element i of the shape it is
// stretched to.
func elemIndex(from, to []int, i int) int {
	index, step := 0, 1
	for axis := len(to) - 1; axis >= 0; axis-- {
		at := i % to[axis]
		i /= to[axis]
		if a := axis - (len(to) - len(from)); a >= 0 {
			if from[a] != 1 {
				index += at * step
			}
			step *= from[a]
		}
	}
	return index
}

// elemTol returns the tolerance for results of a type that are computed in float32 at least.
func elemTol(d graph.DType) float64 {
	switch d {
	case graph.Float32:
		return 2e-6
	case graph.Float64:
		return 1e-12
	case graph.Float16:
		return 2e-3
	case graph.BFloat16:
		return 1.6e-2
	}
	return 0
}

// elemCase makes a case of one output of type d whose elements are f of the operands'.
func elemCase(name string, kind graph.Kind, d graph.DType, f func(x []float64) float64, in ...*executor.Tensor) Case {
	return Case{Name: name, Kind: kind, In: in, Out: []graph.DType{d},
		Want: []*executor.Tensor{elemWant(d, f, in...)}, Tol: elemTol(d)}
}

// elemFails makes a case that fails.
func elemFails(name string, kind graph.Kind, d graph.DType, text string, in ...*executor.Tensor) Case {
	return Case{Name: name, Kind: kind, In: in, Out: []graph.DType{d}, Fails: text}
}

// elemGiven makes a case with the given output.
func elemGiven(name string, kind graph.Kind, want *executor.Tensor, in ...*executor.Tensor) Case {
	return Case{Name: name, Kind: kind, In: in, Out: []graph.DType{want.DType}, Want: []*executor.Tensor{want},
		Tol: elemTol(want.DType)}
}

// with returns the case with attributes.
func (c Case) with(attrs ...graph.Attr) Case {
	c.Attrs = attrs
	return c
}

// at returns the case at an operator set.
func (c Case) at(opset int) Case {
	c.Opset = opset
	return c
}

// elemBool makes 1 of true.
func elemBool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
