package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// argKernel is ArgMax or ArgMin: the place along an axis of the largest or smallest element: the
// first of equal elements or, with select_last_index, the last. NaN wins over every number in both.
// https://onnx.ai/onnx/operators/onnx__ArgMax.html
type argKernel[T reduceElem] struct {
	operand.ArgSearch
	dtype graph.DType

	x        []byte
	y        []int64
	n, inner int // the input is [outer, n, inner]
	tiles    int
}

func newArg(less bool) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		switch p.DType(0) {
		case graph.Float32, graph.Float16, graph.BFloat16:
			return makeArg[float32](p, less), nil
		case graph.Float64:
			return makeArg[float64](p, less), nil
		case graph.Int8:
			return makeArg[int8](p, less), nil
		case graph.Int16:
			return makeArg[int16](p, less), nil
		case graph.Int32:
			return makeArg[int32](p, less), nil
		case graph.Int64:
			return makeArg[int64](p, less), nil
		case graph.Uint8:
			return makeArg[uint8](p, less), nil
		case graph.Uint16:
			return makeArg[uint16](p, less), nil
		case graph.Uint32:
			return makeArg[uint32](p, less), nil
		case graph.Uint64:
			return makeArg[uint64](p, less), nil
		}
		return nil, unsupportedTypes(p)
	}
}

func makeArg[T reduceElem](p *executor.Prep, less bool) executor.Kernel {
	return &argKernel[T]{ArgSearch: operand.NewArgSearch(p, less), dtype: p.DType(0)}
}

// argTile is how many neighbouring results are searched together.
const argTile = 256

// Run searches.
func (k *argKernel[T]) Run(c *executor.Ctx) error {
	y, err := k.Begin(c)
	if y == nil {
		return err
	}
	x := c.In(0)
	k.n, k.inner = x.Shape[k.Axis], product(x.Shape[k.Axis+1:])
	k.x, k.y = x.Data, executor.Of[int64](y)
	k.tiles = (k.inner + argTile - 1) / argTile
	c.Parallel(product(x.Shape[:k.Axis])*k.tiles, normGrain(k.n*min(k.inner, argTile)), k)
	return nil
}

// Range searches for tiles lo..hi-1 of the results.
func (k *argKernel[T]) Range(lo, hi int) {
	var best, buf [argTile]T
	for ; lo < hi; lo++ {
		outer, column := lo/k.tiles, lo%k.tiles*argTile
		base := outer*k.n*k.inner + column
		if k.inner == 1 {
			k.y[outer] = k.row(base, buf[:])
			continue
		}
		n := min(k.inner-column, argTile)
		at := k.y[outer*k.inner+column:][:n]
		clear(at)
		copy(best[:n], k.load(buf[:], base, n))
		for j := 1; j < k.n; j++ {
			k.better(best[:n], k.load(buf[:], base+j*k.inner, n), at, int64(j))
		}
	}
}

// row searches a row of neighbouring elements, block by block: the place of the best element in a
// block matters only if that element beats the best one of earlier blocks.
func (k *argKernel[T]) row(base int, buf []T) int64 {
	var best T
	at := -1
	for lo := 0; lo < k.n; lo += len(buf) {
		a := k.load(buf, base+lo, min(k.n-lo, len(buf)))
		var v T
		if k.Less {
			v = reduceMin(a)
		} else {
			v = reduceMax(a)
		}
		if at < 0 || argBeats(v, best, k.Less, k.Last) {
			best, at = v, lo+argPlace(a, v, k.Last)
		}
	}
	return int64(at)
}

// argPlace returns the first or the last place of v in a.
func argPlace[T reduceElem](a []T, v T, last bool) int {
	at := 0
	for i, w := range a {
		if w == v || w != w {
			if at = i; !last {
				break
			}
		}
	}
	return at
}

// argBeats reports whether v, which comes later, takes the place of best.
func argBeats[T reduceElem](v, best T, less, last bool) bool {
	switch {
	case v != v:
		return best == best || last
	case last && v == best:
		return true
	case less:
		return v < best
	}
	return v > best
}

// better updates the best elements of neighbouring results from their elements j.
func (k *argKernel[T]) better(best, a []T, at []int64, j int64) {
	best, at = best[:len(a)], at[:len(a)]
	if !k.Less && !k.Last {
		for i, v := range a {
			if v > best[i] || v != v && best[i] == best[i] {
				best[i], at[i] = v, j
			}
		}
		return
	}
	for i, v := range a {
		if argBeats(v, best[i], k.Less, k.Last) {
			best[i], at[i] = v, j
		}
	}
}

func (k *argKernel[T]) load(buf []T, at, n int) []T {
	if isHalf(k.dtype) {
		reduceLoad(buf[:n], k.dtype, k.x, at)
		return buf[:n]
	}
	return reduceCast[T](k.x)[at : at+n]
}
