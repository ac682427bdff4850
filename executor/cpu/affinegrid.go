package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// affineGrid is AffineGrid: for theta [N, k, k+1] and size (N, C, d1…dk), with k 2 or 3, a grid [N,
// d1…dk, k] for GridSample: theta times (x, y, [z,] 1) at every place, where x is the coordinate on
// the last axis, all from -1 to 1.
//
// https://onnx.ai/onnx/operators/onnx__AffineGrid.html
type affineGrid[T convFloat] struct {
	align bool
	shape []int
	dims  [maxWindowAxes]int
	axes  int
	theta []T
	y     []T
}

// newAffineGrid makes an AffineGrid.
func newAffineGrid(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(1) != graph.Int64 {
		return nil, unsupportedTypes(p)
	}
	align := p.Node.Int("align_corners", 0) != 0
	switch p.DType(0) {
	case graph.Float32:
		return &affineGrid[float32]{align: align}, nil
	case graph.Float64:
		return &affineGrid[float64]{align: align}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run checks the shapes and computes.
func (k *affineGrid[T]) Run(c *executor.Ctx) error {
	theta, size := c.In(0), executor.Of[int64](c.In(1))
	if len(size) != 4 && len(size) != 5 {
		return c.Errorf("input 1 has %d elements, wanted 4 (N, C, H, W) or 5 (N, C, D, H, W)", len(size))
	}
	k.axes = len(size) - 2
	for i, d := range size {
		if d < 0 || d > windowBound {
			return c.Errorf("input 1 has size %d at %d", d, i)
		}
	}
	if s := theta.Shape; len(s) != 3 || s[0] != int(size[0]) || s[1] != k.axes || s[2] != k.axes+1 {
		return c.Errorf("input 0 has shape %v, wanted [%d %d %d]", s, size[0], k.axes, k.axes+1)
	}
	k.dims = [...]int{1, 1, 1}
	k.shape = append(k.shape[:0], int(size[0]))
	for i, d := range size[2:] {
		k.dims[maxWindowAxes-k.axes+i] = int(d)
		k.shape = append(k.shape, int(d))
	}
	k.shape = append(k.shape, k.axes)
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.theta, k.y = executor.Of[T](theta), executor.Of[T](y)
	c.Parallel(y.Len()/k.axes, 1<<12, k)
	return nil
}

// Range computes the places lo..hi-1.
func (k *affineGrid[T]) Range(lo, hi int) {
	size := windowVolume(k.dims)
	var at [4]float64
	for p := lo; p < hi; p++ {
		rest := p % size
		for i := range k.axes {
			n := k.dims[maxWindowAxes-1-i]
			at[i] = k.coordinate(rest%n, n)
			rest /= n
		}
		at[k.axes] = 1
		theta := k.theta[p/size*k.axes*(k.axes+1):]
		for i := range k.axes {
			s := 0.0
			for j, v := range at[:k.axes+1] {
				s += float64(theta[i*(k.axes+1)+j]) * v
			}
			k.y[p*k.axes+i] = T(s)
		}
	}
}

// coordinate returns the coordinate of element i of n: the middle if there is only one.
func (k *affineGrid[T]) coordinate(i, n int) float64 {
	if !k.align {
		return float64(2*i+1)/float64(n) - 1
	}
	if n == 1 {
		return 0
	}
	return float64(2*i)/float64(n-1) - 1
}
