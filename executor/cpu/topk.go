package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// topKKernel finds the k largest, or smallest, elements along an axis and where they are, best
// first, whether or not sorted is set. Among equal elements the lower index comes first. NaN counts
// as larger than every number. For example, the 2 largest of [3 9 9] are 9 at 1 and 9 at 2.
// https://onnx.ai/onnx/operators/onnx__TopK.html
type topKKernel[T reduceElem] struct {
	version  int
	attr     int64 // k, before version 10
	axisAttr int64
	largest  bool

	x        []T
	values   []T // nil if not wanted
	indices  []int64
	k        int
	n, inner int // [outer, n, inner]
	rows     int
	slots    int // pieces of rows, each with its own heap
	heap     []T // [slots][k]
	heapAt   []int64
	shape    []int
}

// topKSlots is the most pieces that the rows are divided into.
const topKSlots = 64

func newTopK(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return makeTopK[float32](p)
	case graph.Float64:
		return makeTopK[float64](p)
	case graph.Int8:
		return makeTopK[int8](p)
	case graph.Int16:
		return makeTopK[int16](p)
	case graph.Int32:
		return makeTopK[int32](p)
	case graph.Int64:
		return makeTopK[int64](p)
	case graph.Uint8:
		return makeTopK[uint8](p)
	case graph.Uint16:
		return makeTopK[uint16](p)
	case graph.Uint32:
		return makeTopK[uint32](p)
	case graph.Uint64:
		return makeTopK[uint64](p)
	}
	return nil, unsupportedTypes(p)
}

func makeTopK[T reduceElem](p *executor.Prep) (executor.Kernel, error) {
	k := &topKKernel[T]{version: p.Version, attr: p.Node.Int("k", -1), axisAttr: p.Node.Int("axis", -1),
		largest: p.Node.Int("largest", 1) != 0}
	if k.version < 10 && k.attr < 0 {
		return nil, p.Errorf("attribute k is missing or negative")
	}
	return k, nil
}

// Workspace counts the heaps.
func (k *topKKernel[T]) Workspace(in, out [][]int) int {
	for _, s := range out {
		axis := int(k.axisAttr)
		if axis < 0 {
			axis += len(s)
		}
		if axis >= 0 && axis < len(s) {
			n := min(product(s)/max(s[axis], 1), topKSlots) * s[axis]
			return 2 * executor.RoundUp(8*n)
		}
	}
	return 0
}

// Run selects.
func (k *topKKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	axis, err := operand.DataAxis(c, k.axisAttr, x.Rank())
	if err != nil {
		return err
	}
	want := k.attr
	if k.version >= 10 {
		if want, err = operand.Scalar(c, 1, "k"); err != nil {
			return err
		}
	}
	k.n, k.inner = x.Shape[axis], product(x.Shape[axis+1:])
	if want < 0 || want > int64(k.n) {
		return c.Errorf("k is %d; axis %d of input 0, of shape %v, has %d elements", want, axis, x.Shape, k.n)
	}
	k.k = int(want)
	k.shape = append(k.shape[:0], x.Shape...)
	k.shape[axis] = k.k
	k.values, k.indices = nil, nil
	if y := c.Out(0, k.shape...); y != nil {
		k.values = executor.Cast[T](y.Data)
	}
	if y := c.Out(1, k.shape...); y != nil {
		k.indices = executor.Of[int64](y)
	}
	if k.rows = product(x.Shape[:axis]) * k.inner; k.rows*k.k == 0 {
		return nil
	}
	k.x = executor.Cast[T](x.Data)
	k.slots = min(k.rows, topKSlots)
	k.heap = executor.ScratchOf[T](c, k.slots*k.k)
	k.heapAt = executor.ScratchOf[int64](c, k.slots*k.k)
	c.Parallel(k.slots, normGrain(k.rows*k.n/k.slots), k)
	return nil
}

// Range selects in the rows of pieces lo..hi-1.
func (k *topKKernel[T]) Range(lo, hi int) {
	for ; lo < hi; lo++ {
		h := topKHeap[T]{k.heap[lo*k.k : (lo+1)*k.k], k.heapAt[lo*k.k : (lo+1)*k.k], k.largest}
		for row := lo * k.rows / k.slots; row < (lo+1)*k.rows/k.slots; row++ {
			outer, column := row/k.inner, row%k.inner
			h.take(k.x[outer*k.n*k.inner+column:], k.n, k.inner)
			h.sort()
			at := outer*k.k*k.inner + column
			for i := range k.k {
				if k.values != nil {
					k.values[at+i*k.inner] = h.value[i]
				}
				if k.indices != nil {
					k.indices[at+i*k.inner] = h.at[i]
				}
			}
		}
	}
}

// topKHeap is a heap of elements with the worst of them at its root.
type topKHeap[T reduceElem] struct {
	value   []T
	at      []int64
	largest bool
}

// take fills the heap with the best of n elements that are step apart.
func (h *topKHeap[T]) take(x []T, n, step int) {
	k := len(h.value)
	for i := range k {
		h.value[i], h.at[i] = x[i*step], int64(i)
	}
	for i := k/2 - 1; i >= 0; i-- {
		h.sink(i, k)
	}
	root := h.value[0]
	for i := k; i < n; i++ {
		// Elements come in order of rising index: an equal one never takes the root's place.
		v := x[i*step]
		if h.largest && v <= root || !h.largest && v >= root || !topKBeats(v, root, h.largest) {
			continue
		}
		h.value[0], h.at[0] = v, int64(i)
		h.sink(0, k)
		root = h.value[0]
	}
}

// sort puts the heap's elements in order, the best first.
func (h *topKHeap[T]) sort() {
	for n := len(h.value) - 1; n > 0; n-- {
		h.swap(0, n)
		h.sink(0, n)
	}
}

func (h *topKHeap[T]) swap(i, j int) {
	h.value[i], h.value[j] = h.value[j], h.value[i]
	h.at[i], h.at[j] = h.at[j], h.at[i]
}

// sink moves element i of a heap of n down to its place.
func (h *topKHeap[T]) sink(i, n int) {
	for {
		child := 2*i + 1
		if child >= n {
			return
		}
		if child+1 < n && h.worse(child+1, child) {
			child++
		}
		if !h.worse(child, i) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

// worse reports whether element i comes after element j.
func (h *topKHeap[T]) worse(i, j int) bool {
	a, b := h.value[i], h.value[j]
	if topKBeats(b, a, h.largest) {
		return true
	}
	return !topKBeats(a, b, h.largest) && h.at[i] > h.at[j]
}

// topKBeats reports whether the value a comes before b.
func topKBeats[T reduceElem](a, b T, largest bool) bool {
	if largest {
		return a > b || a != a && b == b
	}
	return a < b || b != b && a == a
}
