package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// resizeGradKernel is ResizeGrad of com.microsoft: the gradient of the input X of a Resize from
// that of its output, dY. Inputs dY, X, roi and scales; without scales, they are the ratios of the
// lengths. ONNX Runtime has it only for mode linear and for planes; here it is the transpose of
// every Resize in ONNX's operator set 11 and later.
type resizeGradKernel[T convFloat] struct {
	resizeMap
	want  []int // the shape of X
	work  [2][]T
	x, y  []T // of the current pass: y is added to x
	axis  *resizeAxis
	inner int
	axpy  func(y, x []T, s T)
}

// newResizeGrad makes a ResizeGrad.
func newResizeGrad(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newResizeGradOf[float32](p)
	case graph.Float64:
		return newResizeGradOf[float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newResizeGradOf[T convFloat](p *executor.Prep) (executor.Kernel, error) {
	spec, err := newResizeSpec(p)
	return &resizeGradKernel[T]{resizeMap: resizeMap{spec: spec}, axpy: newConvMath[T]().axpy}, err
}

// Workspace returns the bytes of workspace for the results between the passes.
func (k *resizeGradKernel[T]) Workspace(in, out [][]int) int {
	x := in[1]
	if k.spec.shapeAt > 0 {
		x = nil
		if len(out) > 0 {
			x = out[0]
		}
	}
	if len(in[0]) != len(x) {
		return 0
	}
	return 2 * executor.RoundUp(sizeOfElem[T]()*resizeLargest(in[0], x))
}

// Run computes the tables and does the passes, from the first axis to the last.
func (k *resizeGradKernel[T]) Run(c *executor.Ctx) error {
	dy := c.In(0)
	if k.spec.shapeAt > 0 {
		var err error
		if k.want, err = operand.Shape(c, k.spec.shapeAt, k.want[:0]); err != nil {
			return err
		}
	} else {
		k.want = append(k.want[:0], c.In(1).Shape...)
	}
	if dy.Rank() != len(k.want) {
		return c.Errorf("dY has rank %d, X %d", dy.Rank(), len(k.want))
	}
	if err := k.plan(c, k.want, dy.Shape); err != nil {
		return err
	}
	dx := c.Out(0, k.want...)
	if dx == nil || dx.Len() == 0 {
		return nil
	}
	if dy.Len() == 0 {
		clear(dx.Data)
		return nil
	}
	left := 0
	for i := range k.work {
		k.work[i] = executor.ScratchOf[T](c, resizeLargest(dy.Shape, k.want))
	}
	for i := range k.axes {
		if !k.axes[i].same {
			left++
		}
	}
	cur, turn := executor.Of[T](dy), 0
	outer := 1
	for i := range k.axes {
		a := &k.axes[i]
		if !a.same {
			left--
			k.inner = product(dy.Shape[i+1:])
			dst := k.work[turn][:outer*a.in*k.inner]
			if left == 0 {
				dst = executor.Of[T](dx)
			}
			k.x, k.y, k.axis = dst, cur, a
			c.Parallel(outer, 1+1<<14/(max(a.in, a.out)*k.inner), k)
			cur, turn = dst, 1-turn
		}
		outer *= a.in
	}
	if last := executor.Of[T](dx); &cur[0] != &last[0] {
		copy(last, cur)
	}
	return nil
}

// Range adds up the blocks lo..hi-1 of a pass: each has all elements of the axis.
func (k *resizeGradKernel[T]) Range(lo, hi int) {
	a := k.axis
	for b := lo; b < hi; b++ {
		x, y := k.x[b*a.in*k.inner:][:a.in*k.inner], k.y[b*a.out*k.inner:][:a.out*k.inner]
		clear(x)
		for o := range a.out {
			if a.outside[o] {
				continue
			}
			row := y[o*k.inner:][:k.inner]
			for t, i := range a.index[o*a.taps:][:a.taps] {
				w := T(1)
				if len(a.weight) > 0 {
					w = T(a.weight[o*a.taps+t])
				}
				switch {
				case w == 0:
				case k.inner == 1:
					p := row[0] * w
					x[i] += p
				default:
					k.axpy(x[i*k.inner:][:k.inner], row, w)
				}
			}
		}
	}
}
