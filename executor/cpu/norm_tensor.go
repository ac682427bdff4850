package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
)

// normBlock is how many elements norms and losses process at a time: few enough to stay in the
// first-level cache from one pass to the next. 16-bit elements are converted to and from buffers of
// that length, pass by pass, so that they take no workspace.
const normBlock = 1024

// normTensor has the elements of an operand of type T or, if T is float32, of a 16-bit type.
type normTensor[T normElem] struct {
	data []T
	raw  []byte // of 16-bit elements
	half graph.DType
}

// normOpen returns the elements of a tensor; nil stands for one that is left out.
func normOpen[T normElem](t *executor.Tensor) normTensor[T] {
	switch {
	case t == nil:
		return normTensor[T]{}
	case isHalf(t.DType):
		return normTensor[T]{raw: t.Data, half: t.DType}
	}
	return normTensor[T]{data: executor.Cast[T](t.Data)}
}

// given reports whether there are any elements.
func (t *normTensor[T]) given() bool { return len(t.data)+len(t.raw) > 0 }

// load returns n elements from at on, in buf if they must be converted.
func (t *normTensor[T]) load(buf []T, at, n int) []T {
	if t.raw == nil {
		return t.data[at : at+n]
	}
	widen(normSingle(buf[:n]), t.half, t.raw[2*at:])
	return buf[:n]
}

// place returns where to write n elements from at on; store must follow.
func (t *normTensor[T]) place(buf []T, at, n int) []T {
	if t.raw == nil {
		return t.data[at : at+n]
	}
	return buf[:n]
}

// store writes elements to their place; buffers of place are converted.
func (t *normTensor[T]) store(at int, src []T) {
	if t.raw != nil {
		narrow(t.half, t.raw[2*at:], normSingle(src))
	}
}

// one returns element i.
func (t *normTensor[T]) one(i int) T {
	var buf [1]T
	return t.load(buf[:], i, 1)[0]
}

// put sets element i.
func (t *normTensor[T]) put(i int, v T) {
	buf := [1]T{v}
	if t.raw == nil {
		t.data[i] = v
		return
	}
	t.store(i, buf[:])
}

// sum returns the sum of n elements from at on, block by block.
func (t *normTensor[T]) sum(buf []T, at, n int) T {
	var s T
	for lo := 0; lo < n; lo += normBlock {
		s += normSum(t.load(buf, at+lo, min(n-lo, normBlock)))
	}
	return s
}

// sumSquares returns the sum of (x-m)².
func (t *normTensor[T]) sumSquares(buf []T, at, n int, m T) T {
	var s T
	for lo := 0; lo < n; lo += normBlock {
		s += normSumSquares(t.load(buf, at+lo, min(n-lo, normBlock)), m)
	}
	return s
}

// max returns the largest of n > 0 elements, NaN if there is one.
func (t *normTensor[T]) max(buf []T, at, n int) T {
	m := normMax(t.load(buf, at, min(n, normBlock)))
	for lo := normBlock; lo < n; lo += normBlock {
		m = max(m, normMax(t.load(buf, at+lo, min(n-lo, normBlock))))
	}
	return m
}

// normWide returns the elements of a small operand, in workspace if they must be converted.
func normWide[T normElem](c *executor.Ctx, i int) []T {
	t := c.In(i)
	if t == nil || !isHalf(t.DType) {
		return normData[T](c, i)
	}
	wide := executor.ScratchOf[T](c, t.Len())
	widen(normSingle(wide), t.DType, t.Data)
	return wide
}

// normWideSpace is the workspace that normWide takes for inputs first to last.
func normWideSpace(in [][]int, first, last int) int {
	n := 0
	for i := first; i <= last && i < len(in); i++ {
		if in[i] != nil {
			n += executor.RoundUp(4 * product(in[i]))
		}
	}
	return n
}

// normStats writes statistics, whose type may differ from that of the norm.
type normStats struct {
	single []float32
	double []float64
	half   normTensor[float32]
}

// open gives output i its shape.
func (s *normStats) open(c *executor.Ctx, i int, shape ...int) {
	*s = normStats{}
	switch t := c.Out(i, shape...); {
	case t == nil:
	case t.DType == graph.Float64:
		s.double = executor.Of[float64](t)
	case isHalf(t.DType):
		s.half = normOpen[float32](t)
	default:
		s.single = executor.Of[float32](t)
	}
}

func (s *normStats) put(i int, v float64) {
	switch {
	case s.single != nil:
		s.single[i] = float32(v)
	case s.double != nil:
		s.double[i] = v
	case s.half.raw != nil:
		s.half.put(i, float32(v))
	}
}

// normStat returns element i of a floating-point input of any type.
func normStat[T normElem](t *executor.Tensor, i int) T {
	switch t.DType {
	case graph.Float64:
		return T(executor.Of[float64](t)[i])
	case graph.Float16:
		return T(executor.Of[half.Float16](t)[i].Float32())
	case graph.BFloat16:
		return T(executor.Of[half.BFloat16](t)[i].Float32())
	}
	return T(executor.Of[float32](t)[i])
}

// normFloat reports whether a type is one that norms take.
func normFloat(d graph.DType) bool { return d == graph.Float32 || d == graph.Float64 || isHalf(d) }

// normAccumulates returns the type of a norm's computation for elements of a type.
func normAccumulates(d graph.DType) graph.DType {
	if isHalf(d) {
		return graph.Float32
	}
	return d
}
