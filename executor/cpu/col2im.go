package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// col2Im is Col2Im: the columns X [N, C*block, L] are added up into the images [N, C, d…] that they
// were cut from: column l lists the elements under place l of a sliding block. Inputs 1 and 2 are
// the shapes of image and block.
//
// https://onnx.ai/onnx/operators/onnx__Col2Im.html
type col2Im[T convFloat] struct {
	core         convCore[T]
	attrs        windowAttrs
	image, block []int
	shape        []int
	columns      []T
}

// newCol2Im makes a Col2Im.
func newCol2Im(p *executor.Prep) (executor.Kernel, error) {
	attrs, err := newWindowAttrs(p)
	if err != nil {
		return nil, err
	}
	attrs.kernel = nil
	if p.DType(1) != graph.Int64 || p.DType(2) != graph.Int64 {
		return nil, unsupportedTypes(p)
	}
	switch p.DType(0) {
	case graph.Float32:
		return &col2Im[float32]{attrs: attrs, core: convCore[float32]{math: newConvMath[float32]()}}, nil
	case graph.Float64:
		return &col2Im[float64]{attrs: attrs, core: convCore[float64]{math: newConvMath[float64]()}}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run checks the shapes and adds up, plane by plane.
func (k *col2Im[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() != 3 {
		return c.Errorf("input 0 has rank %d, wanted 3", x.Rank())
	}
	var err error
	if k.image, err = col2ImShape(c, 1, 0, k.image[:0]); err != nil {
		return err
	}
	if k.block, err = col2ImShape(c, 2, 1, k.block[:0]); err != nil {
		return err
	}
	p := &k.core.convPlan
	if p.win, err = k.attrs.onto(k.image, k.block); err != nil {
		return err
	}
	if err := k.attrs.slide(&p.win); err != nil {
		return err
	}
	p.taps = windowVolume(p.win.kernel)
	p.inPlane, p.outPlane = windowVolume(p.win.in), windowVolume(p.win.out)
	if x.Shape[1]%p.taps != 0 || x.Shape[2] != p.outPlane {
		return c.Errorf("input 0 has shape %v, wanted a multiple of %d, the block's elements, on axis 1, and %d, "+
			"the block's places, on axis 2",
			x.Shape, p.taps, p.outPlane)
	}
	p.n, p.c = x.Shape[0], x.Shape[1]/p.taps
	k.shape = append(append(k.shape[:0], p.n, p.c), k.image...)
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.core.x, k.columns = executor.Of[T](y), executor.Of[T](x)
	c.Parallel(p.n*p.c, 1+1<<13/(p.taps*p.outPlane), k)
	return nil
}

// col2ImShape reads a shape from an input.
func col2ImShape(c *executor.Ctx, slot int, least int64, dst []int) ([]int, error) {
	for _, d := range executor.Of[int64](c.In(slot)) {
		if d < least || d > windowBound {
			return nil, c.Errorf("input %d has %d, wanted %d to %d", slot, d, least, windowBound)
		}
		dst = append(dst, int(d))
	}
	return dst, nil
}

// Range adds up the planes lo..hi-1.
func (k *col2Im[T]) Range(lo, hi int) {
	p := &k.core.convPlan
	size := p.taps * p.outPlane
	for i := lo; i < hi; i++ {
		clear(k.core.x[i*p.inPlane:][:p.inPlane])
		n, c := i/p.c, i%p.c
		k.core.unpack(k.columns[i*size:][:size], p.outPlane, c, c+1, n*p.outPlane, (n+1)*p.outPlane)
	}
}
