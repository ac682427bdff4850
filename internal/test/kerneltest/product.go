package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
)

// productValue is the contents of test operands: small numbers of both signs that are exact in
// all floating-point types.
func productValue(i, seed int) float64 { return float64((i*7+seed*5+i/13)%11-5) / 4 }

// productTensor makes a tensor of such numbers.
func productTensor(d graph.DType, seed int, shape ...int) *executor.Tensor {
	return productOf(d, shape, func(i int) float64 { return productValue(i, seed) })
}

// productOf makes a tensor of numbers; integers take four times the value.
func productOf(d graph.DType, shape []int, value func(i int) float64) *executor.Tensor {
	t := &executor.Tensor{DType: d, Shape: shape}
	n := t.Len()
	switch d {
	case graph.Float32:
		t.Data = productMemory(n, func(i int) float32 { return float32(value(i)) })
	case graph.Float64:
		t.Data = productMemory(n, value)
	case graph.Float16:
		t.Data = productMemory(n, func(i int) half.Float16 { return half.Float16From(float32(value(i))) })
	case graph.BFloat16:
		t.Data = productMemory(n, func(i int) half.BFloat16 { return half.BFloat16From(float32(value(i))) })
	case graph.Int32, graph.Uint32:
		t.Data = productMemory(n, func(i int) int32 { return int32(4 * value(i)) })
	case graph.Int64, graph.Uint64:
		t.Data = productMemory(n, func(i int) int64 { return int64(4 * value(i)) })
	case graph.Int8, graph.Uint8, graph.Bool:
		t.Data = productMemory(n, func(i int) int8 { return int8(4 * value(i)) })
	default:
		panic(fmt.Sprintf("no tensors of %v", d))
	}
	return t
}

func productMemory[T executor.Elem](n int, value func(i int) T) []byte {
	s := make([]T, n)
	for i := range s {
		s[i] = value(i)
	}
	return executor.Memory(s)
}

// productWide is a tensor in float64, for independent computations.
type productWide struct {
	shape []int
	v     []float64
}

func productWiden(t *executor.Tensor) productWide {
	w := productWide{t.Shape, make([]float64, t.Len())}
	for i := range w.v {
		if f, ok := Float(t, i); ok {
			w.v[i] = f
			continue
		}
		switch t.DType {
		case graph.Int64, graph.Uint64:
			w.v[i] = float64(executor.Of[int64](t)[i])
		case graph.Int32, graph.Uint32:
			w.v[i] = float64(executor.Of[int32](t)[i])
		case graph.Int8:
			w.v[i] = float64(executor.Of[int8](t)[i])
		case graph.Uint8, graph.Bool:
			w.v[i] = float64(executor.Of[uint8](t)[i])
		}
	}
	return w
}

// tensor rounds to a type.
func (w productWide) tensor(d graph.DType) *executor.Tensor {
	scale := 1.0
	if _, ok := Float(&executor.Tensor{DType: d, Shape: []int{1}, Data: make([]byte, 8)}, 0); !ok {
		scale = 0.25 // productOf multiplies integers by 4
	}
	return productOf(d, w.shape, func(i int) float64 { return w.v[i] * scale })
}

// at returns an element by its indices; an axis of length 1 and missing leading axes are repeated.
func (w productWide) at(index []int) float64 {
	index = index[len(index)-len(w.shape):]
	at := 0
	for i, d := range w.shape {
		at *= d
		if d > 1 {
			at += index[i]
		}
	}
	return w.v[at]
}

// productEach computes a tensor element by element.
func productEach(shape []int, f func(index []int) float64) productWide {
	w := productWide{shape: shape}
	index := make([]int, len(shape))
	n := 1
	for _, d := range shape {
		n *= d
	}
	for i := range n {
		for a, rest := len(shape)-1, i; a >= 0; a-- {
			index[a], rest = rest%shape[a], rest/shape[a]
		}
		w.v = append(w.v, f(index))
	}
	return w
}

// swapped returns a matrix per batch transposed.
func (w productWide) swapped() productWide {
	n := len(w.shape)
	shape := append([]int(nil), w.shape...)
	shape[n-1], shape[n-2] = shape[n-2], shape[n-1]
	back := make([]int, n)
	return productEach(shape, func(index []int) float64 {
		copy(back, index)
		back[n-1], back[n-2] = back[n-2], back[n-1]
		return w.at(back)
	})
}

// behind returns the tensor with its first axis moved to the place before the last.
func (w productWide) behind() productWide {
	n := len(w.shape)
	shape := append(append([]int(nil), w.shape[1:n-1]...), w.shape[0], w.shape[n-1])
	back := make([]int, n)
	return productEach(shape, func(index []int) float64 {
		back[0], back[n-1] = index[n-2], index[n-1]
		copy(back[1:], index[:n-2])
		return w.at(back)
	})
}

// productMatMul is numpy.matmul, by its definition.
func productMatMul(a, b productWide) productWide {
	row, col := len(a.shape) == 1, len(b.shape) == 1
	if row {
		a.shape = []int{1, a.shape[0]}
	}
	if col {
		b.shape = []int{b.shape[0], 1}
	}
	rank := max(len(a.shape), len(b.shape))
	shape := make([]int, rank)
	for i := range rank - 2 {
		shape[i] = 1
		for _, s := range [][]int{a.shape, b.shape} {
			if j := i - rank + len(s); j >= 0 && s[j] != 1 {
				shape[i] = s[j]
			}
		}
	}
	k := a.shape[len(a.shape)-1]
	shape[rank-2], shape[rank-1] = a.shape[len(a.shape)-2], b.shape[len(b.shape)-1]
	left, right := make([]int, rank), make([]int, rank)
	w := productEach(shape, func(index []int) float64 {
		copy(left, index)
		copy(right, index)
		sum := 0.0
		for l := range k {
			left[rank-1], right[rank-2] = l, l
			sum += a.at(left) * b.at(right)
		}
		return sum
	})
	if col {
		w.shape = w.shape[:rank-1]
	}
	if row {
		w.shape = append(append([]int(nil), w.shape[:rank-2]...), w.shape[rank-1:]...)
		if col {
			w.shape = w.shape[:rank-2]
		}
	}
	return w
}

// productTolerance bounds the error of sums of a few hundred terms.
func productTolerance(d graph.DType) float64 {
	switch d {
	case graph.Float32:
		return 1e-5
	case graph.Float64:
		return 1e-13
	case graph.Float16:
		return 1e-3
	case graph.BFloat16:
		return 1e-2
	}
	return 0
}
