package cpu

import (
	"slices"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// uniqueKernel finds the distinct elements of the flat input, or the distinct slices along an axis:
// Y, where each first occurs, which of Y each input slice is, and how often each occurs. Y ascends,
// or, with sorted = 0, is in the order of first occurrence. Slices compare lexicographically. NaNs
// count as equal to each other and larger than numbers, -0 as equal to 0.
// https://onnx.ai/onnx/operators/onnx__Unique.html
type uniqueKernel[T reduceElem] struct {
	axis   int64
	flat   bool
	sorted bool
	cmp    func(a, b int) int // k.compare: made once

	x               []T
	outer, n, inner int   // slices are [:, i, :]
	order           []int // slices, equal ones together
	starts          []int // where in order each distinct slice begins
	byFirst         []int // distinct slices in the order of Y
	cmpFirst        func(a, b int) int
	shape           []int
}

func newUnique(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return makeUnique[float32](p), nil
	case graph.Float64:
		return makeUnique[float64](p), nil
	case graph.Int8:
		return makeUnique[int8](p), nil
	case graph.Int16:
		return makeUnique[int16](p), nil
	case graph.Int32:
		return makeUnique[int32](p), nil
	case graph.Int64:
		return makeUnique[int64](p), nil
	case graph.Uint8, graph.Bool:
		return makeUnique[uint8](p), nil
	case graph.Uint16:
		return makeUnique[uint16](p), nil
	case graph.Uint32:
		return makeUnique[uint32](p), nil
	case graph.Uint64:
		return makeUnique[uint64](p), nil
	}
	return nil, unsupportedTypes(p)
}

func makeUnique[T reduceElem](p *executor.Prep) executor.Kernel {
	k := &uniqueKernel[T]{axis: p.Node.Int("axis", 0), flat: p.Node.Attr("axis") == nil,
		sorted: p.Node.Int("sorted", 1) != 0}
	k.cmp, k.cmpFirst = k.compare, k.compareFirst
	return k
}

// Run sorts the slices and groups them.
func (k *uniqueKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	k.outer, k.n, k.inner = 1, x.Len(), 1
	k.shape = append(k.shape[:0], 0)
	axis := 0
	if !k.flat {
		var err error
		if axis, err = operand.DataAxis(c, k.axis, x.Rank()); err != nil {
			return err
		}
		k.outer, k.n, k.inner = product(x.Shape[:axis]), x.Shape[axis], product(x.Shape[axis+1:])
		k.shape = append(k.shape[:0], x.Shape...)
	}
	k.x = executor.Cast[T](x.Data)
	k.group()
	k.shape[axis] = len(k.byFirst)
	k.write(c)
	return nil
}

// group sets order, starts and byFirst.
func (k *uniqueKernel[T]) group() {
	k.order, k.starts, k.byFirst = k.order[:0], k.starts[:0], k.byFirst[:0]
	for i := range k.n {
		k.order = append(k.order, i)
	}
	slices.SortFunc(k.order, k.cmp)
	for i, s := range k.order {
		if i == 0 || k.compareSlices(k.order[i-1], s) != 0 {
			k.byFirst = append(k.byFirst, len(k.starts))
			k.starts = append(k.starts, i)
		}
	}
	k.starts = append(k.starts, k.n)
	if !k.sorted {
		slices.SortFunc(k.byFirst, k.cmpFirst)
	}
}

// compare orders slices by their elements, then by their place.
func (k *uniqueKernel[T]) compare(a, b int) int {
	if d := k.compareSlices(a, b); d != 0 {
		return d
	}
	return a - b
}

// compareFirst orders groups by their first slice.
func (k *uniqueKernel[T]) compareFirst(a, b int) int {
	return k.order[k.starts[a]] - k.order[k.starts[b]]
}

func (k *uniqueKernel[T]) compareSlices(a, b int) int {
	for o := range k.outer {
		base := o * k.n * k.inner
		xa, xb := k.x[base+a*k.inner:][:k.inner], k.x[base+b*k.inner:][:k.inner]
		for i, v := range xa {
			switch w := xb[i]; {
			case topKBeats(v, w, false):
				return -1
			case topKBeats(w, v, false):
				return 1
			}
		}
	}
	return 0
}

// write makes the outputs.
func (k *uniqueKernel[T]) write(c *executor.Ctx) {
	u := len(k.byFirst)
	y, first, inverse, count := c.Out(0, k.shape...), c.Out(1, u), c.Out(2, k.n), c.Out(3, u)
	if y != nil && y.Len() > 0 {
		k.gather(executor.Cast[T](y.Data))
	}
	for i, g := range k.byFirst {
		members := k.order[k.starts[g]:k.starts[g+1]]
		if first != nil {
			executor.Of[int64](first)[i] = int64(members[0])
		}
		if count != nil {
			executor.Of[int64](count)[i] = int64(len(members))
		}
		if inverse != nil {
			at := executor.Of[int64](inverse)
			for _, m := range members {
				at[m] = int64(i)
			}
		}
	}
}

// gather copies the first slice of each group.
func (k *uniqueKernel[T]) gather(y []T) {
	for o := range k.outer {
		x := k.x[o*k.n*k.inner:]
		for _, g := range k.byFirst {
			copy(y[:k.inner], x[k.order[k.starts[g]]*k.inner:])
			y = y[k.inner:]
		}
	}
}
