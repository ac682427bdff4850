package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/simd"
)

// newArithmetic makes the kernels of Add, Sub, Mul, Div, and of Mod, Max and Min with two operands.
//
// Integers wrap around. Division of integers cuts off the fraction; division by zero is an error.
// The larger or smaller of a number and NaN is NaN. 16-bit floating-point numbers are computed in
// float32.
//
// https://onnx.ai/onnx/operators/onnx__Add.html and so on.
func newArithmetic(p *executor.Prep) (executor.Kernel, error) {
	if p.Version < 7 && p.Info.Since[0] == 1 && p.Info.Inputs.Max == 2 {
		return nil, p.Unsupported("schema version %d stretches operands by attributes; from 7 on there is a kernel",
			p.Version)
	}
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	as := elemWide(p.DType(0))
	k, err := elemNode(p, arithmeticLoop(p, as), as, as)
	if err != nil {
		return nil, err
	}
	if kind := p.Node.Kind; as.IsInteger() && (kind == op.Div || kind == op.Mod) {
		k.check = divisorCheck(as)
	}
	return k, nil
}

func arithmeticLoop(p *executor.Prep, d graph.DType) elemLoop {
	switch d {
	case graph.Float32:
		return float32Loop(p.Node.Kind)
	case graph.Float64:
		return floatLoop2[float64](p.Node.Kind)
	case graph.Int8:
		return integerLoop2[int8](p)
	case graph.Int16:
		return integerLoop2[int16](p)
	case graph.Int32:
		return integerLoop2[int32](p)
	case graph.Int64:
		return integerLoop2[int64](p)
	case graph.Uint8:
		return integerLoop2[uint8](p)
	case graph.Uint16:
		return integerLoop2[uint16](p)
	case graph.Uint32:
		return integerLoop2[uint32](p)
	case graph.Uint64:
		return integerLoop2[uint64](p)
	}
	return nil
}

// float32Loop returns the loop of an operator in package simd, or in Go.
func float32Loop(kind graph.Kind) elemLoop {
	switch kind {
	case op.Add, op.Sum:
		return loop2(simd.Add)
	case op.Sub:
		return loop2(simd.Sub)
	case op.Mul:
		return loop2(simd.Mul)
	case op.Div:
		return loop2(simd.Div)
	}
	return floatLoop2[float32](kind)
}

func floatLoop2[T elemFloat](kind graph.Kind) elemLoop {
	if kind == op.Mod {
		return loop2(floatMod[T])
	}
	return numberLoop2[T](kind)
}

func integerLoop2[T elemInteger](p *executor.Prep) elemLoop {
	if p.Node.Kind != op.Mod {
		return numberLoop2[T](p.Node.Kind)
	}
	if p.Node.Int("fmod", 0) != 0 {
		return loop2(truncMod[T])
	}
	return loop2(floorMod[T])
}

func numberLoop2[T elemNumber](kind graph.Kind) elemLoop {
	switch kind {
	case op.Add, op.Sum:
		return loop2(addLoop[T])
	case op.Sub:
		return loop2(subLoop[T])
	case op.Mul:
		return loop2(mulLoop[T])
	case op.Div:
		return loop2(divLoop[T])
	case op.Max:
		return loop2(maxLoop[T])
	case op.Min:
		return loop2(minLoop[T])
	}
	return nil
}

func addLoop[T elemNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func subLoop[T elemNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func mulLoop[T elemNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// divLoop divides; integer divisors have been checked.
func divLoop[T elemNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

func maxLoop[T elemNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

func minLoop[T elemNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}
