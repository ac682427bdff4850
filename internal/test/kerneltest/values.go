package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/executor/small"
	"memopt/graph"
	"memopt/internal/half"
)

// Common parts of the cases of recurrences, random draws, optimizers and quantization.

// seqValues returns n numbers k/64 with |k| < 128, which every floating-point type holds
// exactly.
func seqValues(n int, seed uint32) []float64 {
	v := make([]float64, n)
	for i := range v {
		seed = seed*1664525 + 1013904223
		v[i] = float64(int(seed>>24)%255-127) / 64
	}
	return v
}

// seqTensor makes a tensor of any float or integer type, or bool, rounding the values.
func seqTensor(d graph.DType, shape []int, v []float64) *executor.Tensor {
	switch d {
	case graph.Float32:
		return executor.NewTensor(d, shape, seqAs[float32](v)...)
	case graph.Float64:
		return executor.NewTensor(d, shape, append([]float64(nil), v...)...)
	case graph.Float16:
		h := make([]half.Float16, len(v))
		for i, x := range v {
			h[i] = half.Float16From(float32(x))
		}
		return executor.NewTensor(d, shape, h...)
	case graph.BFloat16:
		h := make([]half.BFloat16, len(v))
		for i, x := range v {
			h[i] = half.BFloat16From(float32(x))
		}
		return executor.NewTensor(d, shape, h...)
	case graph.Int8:
		return executor.NewTensor(d, shape, seqAs[int8](v)...)
	case graph.Int16:
		return executor.NewTensor(d, shape, seqAs[int16](v)...)
	case graph.Int32:
		return executor.NewTensor(d, shape, seqAs[int32](v)...)
	case graph.Int64:
		return executor.NewTensor(d, shape, seqAs[int64](v)...)
	case graph.Uint8, graph.Bool:
		return executor.NewTensor(d, shape, seqAs[uint8](v)...)
	case graph.Uint16:
		return executor.NewTensor(d, shape, seqAs[uint16](v)...)
	case graph.Uint32:
		return executor.NewTensor(d, shape, seqAs[uint32](v)...)
	}
	if small.IsFloat(d) || small.IsPacked(d) {
		return smallTensor(d, shape, v)
	}
	panic(fmt.Sprintf("kerneltest: no tensors of %v", d))
}

// smallTensor packs elements of 8 bits or less.
func smallTensor(d graph.DType, shape []int, v []float64) *executor.Tensor {
	n, _ := executor.Bytes(d, shape)
	t := &executor.Tensor{DType: d, Shape: shape, Data: make([]byte, (n+7)&^7)[:n]}
	e := small.NewEncoder(d, true, small.Up)
	for i, x := range v {
		if small.IsFloat(d) {
			small.SetCode(d, t.Data, i, e.Code(x))
		} else {
			small.SetCode(d, t.Data, i, byte(int(x)))
		}
	}
	return t
}

func seqAs[T float32 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](v []float64) []T {
	out := make([]T, len(v))
	for i, x := range v {
		out[i] = T(x)
	}
	return out
}

// seqTol is a tolerance for results that are rounded to a type once.
func seqTol(d graph.DType) float64 {
	switch d {
	case graph.Float64:
		return 1e-12
	case graph.Float16:
		return 2e-3
	case graph.BFloat16:
		return 1e-2
	}
	return 2e-6
}

// seqShape is a shape that makes a case of its own.
type seqShape struct {
	name string
	dims []int
}

func seqCount(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func seqFloats() []graph.DType {
	return []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16}
}

// seqFails is a case that must fail.
func seqFails(c Case, name, want string) Case {
	c.Name, c.Fails, c.Want = name, want, nil
	return c
}
