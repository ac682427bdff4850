package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/simd"
)

// reduceElem lists the types of accumulators.
type reduceElem interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// reduceOp is the function of a reduction, for example a sum of squares.
type reduceOp uint8

const (
	foldSum reduceOp = iota
	foldMean
	foldAbs    // ReduceL1
	foldSquare // ReduceSumSquare
	foldNorm   // ReduceL2
	foldLog    // ReduceLogSum
	foldLogExp // ReduceLogSumExp: the sum of e^(x-m), where m is the maximum
	foldMax
	foldMin
	foldProd
)

func reduceIsSingle[A reduceElem]() bool {
	var zero A
	_, ok := any(zero).(float32)
	return ok
}

func reduceSingle[A reduceElem](a []A) []float32 { return executor.Cast[float32](executor.Memory(a)) }

// reduceIdentity returns the result of an empty fold: 0, 1, or the least or greatest value.
func reduceIdentity[A reduceElem](op reduceOp) A {
	least, greatest := reduceLimits[A]()
	switch op {
	case foldProd:
		return 1
	case foldMax:
		return least
	case foldMin:
		return greatest
	}
	return 0
}

// reduceLimits returns the least and the greatest value of a type.
func reduceLimits[A reduceElem]() (least, greatest A) {
	var lo, hi any
	switch any(least).(type) {
	case float32:
		lo, hi = float32(math.Inf(-1)), float32(math.Inf(1))
	case float64:
		lo, hi = math.Inf(-1), math.Inf(1)
	case int8:
		lo, hi = int8(math.MinInt8), int8(math.MaxInt8)
	case int16:
		lo, hi = int16(math.MinInt16), int16(math.MaxInt16)
	case int32:
		lo, hi = int32(math.MinInt32), int32(math.MaxInt32)
	case int64:
		lo, hi = int64(math.MinInt64), int64(math.MaxInt64)
	case uint8:
		lo, hi = uint8(0), uint8(math.MaxUint8)
	case uint16:
		lo, hi = uint16(0), uint16(math.MaxUint16)
	case uint32:
		lo, hi = uint32(0), uint32(math.MaxUint32)
	case uint64:
		lo, hi = uint64(0), uint64(math.MaxUint64)
	}
	return lo.(A), hi.(A)
}

// reduceRun folds neighbouring elements into one; m is the maximum for foldLogExp, and buf has
// room for as many elements. NaN wins over everything in foldMax and foldMin.
func reduceRun[A reduceElem](op reduceOp, a []A, m A, buf []A) A {
	switch op {
	case foldSum, foldMean, foldLog:
		return reduceSum(a)
	case foldSquare, foldNorm:
		return reduceSquares(a)
	case foldMax:
		return reduceMax(a)
	case foldMin:
		return reduceMin(a)
	}
	var s A
	switch op {
	case foldAbs:
		if reduceIsSingle[A]() {
			return A(simd.SumAbs(reduceSingle(a)))
		}
		for _, v := range a {
			if v < 0 {
				v = -v
			}
			s += v
		}
	case foldLogExp:
		if reduceIsSingle[A]() {
			return A(simd.ExpSum(reduceSingle(buf[:len(a)]), reduceSingle(a), float32(m)))
		}
		for _, v := range a {
			s += A(math.Exp(float64(v - m)))
		}
	case foldProd:
		s = 1
		for _, v := range a {
			s *= v
		}
	}
	return s
}

// reduceSum adds float32 in simd.Sum's order, integers modulo 2^n.
func reduceSum[A reduceElem](a []A) A {
	if reduceIsSingle[A]() {
		return A(simd.Sum(reduceSingle(a)))
	}
	var s A
	for _, v := range a {
		s += v
	}
	return s
}

func reduceSquares[A reduceElem](a []A) A {
	if reduceIsSingle[A]() {
		return A(simd.SumSquares(reduceSingle(a), 0))
	}
	var s A
	for _, v := range a {
		s += A(v * v)
	}
	return s
}

// reduceMax and reduceMin compare twice rather than use Go's max and min, which take longer to tell
// 0 from -0 too.
func reduceMax[A reduceElem](a []A) A {
	if reduceIsSingle[A]() {
		return A(simd.Max(reduceSingle(a)))
	}
	m := a[0]
	for _, v := range a {
		if v > m || v != v {
			m = v
		}
	}
	return m
}

func reduceMin[A reduceElem](a []A) A {
	if reduceIsSingle[A]() {
		return A(reduceMinSingle(reduceSingle(a)))
	}
	return reduceMinScalar(a)
}

func reduceMinScalar[A reduceElem](a []A) A {
	m := a[0]
	for _, v := range a {
		if v < m || v != v {
			m = v
		}
	}
	return m
}

// reduceMinSingle folds groups of elements into one group, and that into one element.
func reduceMinSingle(a []float32) float32 {
	var group [64]float32
	if len(a) < 2*len(group) {
		return reduceMinScalar(a)
	}
	copy(group[:], a)
	a = a[len(group):]
	for len(a) >= len(group) {
		simd.MinOf(group[:], group[:], a[:len(group)])
		a = a[len(group):]
	}
	simd.MinOf(group[:len(a)], group[:len(a)], a)
	return reduceMinScalar(group[:])
}

// reduceInto folds each element of a into its own place of acc. m has the maxima for foldLogExp,
// and buf room for len(acc) elements.
func reduceInto[A reduceElem](op reduceOp, acc, a, m, buf []A) {
	a = a[:len(acc)]
	switch op {
	case foldAbs:
		for i, v := range a {
			if v < 0 {
				v = -v
			}
			acc[i] += v
		}
	case foldSquare, foldNorm:
		if reduceIsSingle[A]() {
			b := reduceSingle(acc)
			simd.MulAdd(b, reduceSingle(a), reduceSingle(a), b)
			return
		}
		for i, v := range a {
			acc[i] += A(v * v)
		}
	case foldLogExp:
		reduceExpInto(acc, a, m[:len(acc)], buf[:len(acc)])
	default:
		reduceCombine(op, acc, a)
	}
}

// reduceExpInto adds e^(a-m) to acc.
func reduceExpInto[A reduceElem](acc, a, m, buf []A) {
	if reduceIsSingle[A]() {
		b := reduceSingle(buf)
		simd.Sub(b, reduceSingle(a), reduceSingle(m))
		simd.Exp(b, b)
		simd.Add(reduceSingle(acc), reduceSingle(acc), b)
		return
	}
	for i, v := range a {
		acc[i] += A(math.Exp(float64(v - m[i])))
	}
}

// reduceCombine puts partial results together: acc with those of later elements.
func reduceCombine[A reduceElem](op reduceOp, acc, a []A) {
	a = a[:len(acc)]
	switch op {
	case foldMax:
		if reduceIsSingle[A]() {
			b := reduceSingle(acc)
			simd.MaxOf(b, b, reduceSingle(a))
			return
		}
		for i, v := range a {
			if v > acc[i] || v != v {
				acc[i] = v
			}
		}
	case foldMin:
		if reduceIsSingle[A]() {
			b := reduceSingle(acc)
			simd.MinOf(b, b, reduceSingle(a))
			return
		}
		for i, v := range a {
			if v < acc[i] || v != v {
				acc[i] = v
			}
		}
	case foldProd:
		for i, v := range a {
			acc[i] *= v
		}
	default:
		if reduceIsSingle[A]() {
			b := reduceSingle(acc)
			simd.Add(b, b, reduceSingle(a))
			return
		}
		for i, v := range a {
			acc[i] += v
		}
	}
}

// reduceFinish turns folded elements into results: count is how many went into each, m the maxima
// for foldLogExp.
func reduceFinish[A reduceElem](op reduceOp, acc, m []A, count int) {
	switch op {
	case foldMean:
		n := A(count)
		for i := range acc {
			acc[i] /= n
		}
	case foldNorm:
		for i, v := range acc {
			acc[i] = A(math.Sqrt(float64(v)))
		}
	case foldLog:
		for i, v := range acc {
			acc[i] = A(math.Log(float64(v)))
		}
	case foldLogExp:
		for i, v := range acc {
			acc[i] = m[i] + A(math.Log(float64(v)))
		}
	}
}

// reduceLoad gets elements at.. of a tensor's memory as A: 16-bit floats as float32, integers as
// float64.
func reduceLoad[A reduceElem](dst []A, d graph.DType, data []byte, at int) {
	switch d {
	case graph.Float16, graph.BFloat16:
		widen(reduceSingle(dst), d, data[2*at:])
	case graph.Int32:
		reduceConvert(dst, executor.Cast[int32](data)[at:])
	case graph.Int64:
		reduceConvert(dst, executor.Cast[int64](data)[at:])
	case graph.Uint32:
		reduceConvert(dst, executor.Cast[uint32](data)[at:])
	case graph.Uint64:
		reduceConvert(dst, executor.Cast[uint64](data)[at:])
	}
}

// reduceStore does the reverse: floats are rounded to 16 bits, or truncated to integers.
func reduceStore[A reduceElem](d graph.DType, data []byte, at int, src []A) {
	switch d {
	case graph.Float16, graph.BFloat16:
		narrow(d, data[2*at:], reduceSingle(src))
	case graph.Int32:
		reduceConvert(executor.Cast[int32](data)[at:at+len(src)], src)
	case graph.Int64:
		reduceConvert(executor.Cast[int64](data)[at:at+len(src)], src)
	case graph.Uint32:
		reduceConvert(executor.Cast[uint32](data)[at:at+len(src)], src)
	case graph.Uint64:
		reduceConvert(executor.Cast[uint64](data)[at:at+len(src)], src)
	}
}

func reduceConvert[D, S reduceElem](dst []D, src []S) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = D(v)
	}
}
