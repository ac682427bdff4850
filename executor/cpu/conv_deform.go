package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// deformConv is DeformConv for planes: a convolution whose taps are moved. Inputs X [N, C, H, W], W
// [M, C/group, kh, kw], offset [N, offset_group*kh*kw*2, H', W'], bias [M] and mask [N,
// offset_group*kh*kw, H', W']. At every place, tap k sees X at its regular element plus (offset 2k,
// offset 2k+1), interpolated between the four elements around it, times the mask; elements outside
// X count as 0.
//
// https://onnx.ai/onnx/operators/onnx__DeformConv.html
type deformConv[T convFloat] struct {
	core         convCore[T]
	attrs        windowAttrs
	group        int
	offsetGroups int
	shape        []int
	offset, mask []T
}

// newDeformConv makes a DeformConv.
func newDeformConv(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newDeformConvOf[float32](p)
	case graph.Float64:
		return newDeformConvOf[float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newDeformConvOf[T convFloat](p *executor.Prep) (executor.Kernel, error) {
	attrs, group, err := newConvAttrs(p)
	if err != nil {
		return nil, err
	}
	og := p.Node.Int("offset_group", 1)
	if og < 1 || og > windowBound {
		return nil, p.Errorf("attribute offset_group is %d, wanted at least 1", og)
	}
	k := &deformConv[T]{attrs: attrs, group: group, offsetGroups: int(og)}
	k.core = convCore[T]{math: newConvMath[T](), threads: max(1, p.Threads)}
	return k, nil
}

// plan cuts the work as for a Conv, except that every tile makes its own columns.
func (k *deformConv[T]) plan(x, w []int) (convPlan, error) {
	p, err := newConvPlan(&k.attrs, k.group, x, w, sizeOfElem[T]())
	p.splitRows = 0 // columns are made in another way
	if p.way != convTiled {
		p.way = convTiled
		p.tile = min(p.outPlane, 1<<10)
		p.perPlane = (p.outPlane + p.tile - 1) / max(1, p.tile)
		p.tiles = p.n * p.perPlane
	}
	return p, err
}

// Workspace returns the bytes of workspace for the columns.
func (k *deformConv[T]) Workspace(in, _ [][]int) int {
	plan, err := k.plan(in[0], in[1])
	if err != nil {
		return 0
	}
	core := convCore[T]{convPlan: plan, threads: k.core.threads}
	return core.workspace()
}

// Run checks the shapes and computes.
func (k *deformConv[T]) Run(c *executor.Ctx) error {
	x, w, offset, bias, mask := c.In(0), c.In(1), c.In(2), c.In(3), c.In(4)
	if x.Rank() != 4 {
		return c.Errorf("input 0 has rank %d, wanted 4", x.Rank())
	}
	var err error
	p := &k.core.convPlan
	if *p, err = k.plan(x.Shape, w.Shape); err != nil {
		return err
	}
	if p.c%k.offsetGroups != 0 {
		return c.Errorf("the data has %d channels, which offset_group %d does not divide", p.c, k.offsetGroups)
	}
	if err := k.checkPlanes(c, offset, 2, 2); err != nil {
		return err
	}
	k.core.bias, k.mask = nil, nil
	if mask != nil {
		if err := k.checkPlanes(c, mask, 4, 1); err != nil {
			return err
		}
		k.mask = executor.Of[T](mask)
	}
	if bias != nil {
		if bias.Rank() != 1 || bias.Shape[0] != p.m {
			return c.Errorf("input 3 (bias) has shape %v, wanted [%d]", bias.Shape, p.m)
		}
		k.core.bias = executor.Of[T](bias)
	}
	k.shape = p.outShape(k.shape[:0])
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.core.x, k.core.w, k.core.y, k.offset = executor.Of[T](x), executor.Of[T](w), executor.Of[T](y),
		executor.Of[T](offset)
	k.core.work = executor.ScratchOf[T](c, k.core.workLen(k.core.threads))
	k.core.slots.reset(k.core.threads)
	c.Parallel(p.tiles*p.group, 1, k)
	return nil
}

// checkPlanes checks an input with per planes for every tap of every offset group.
func (k *deformConv[T]) checkPlanes(c *executor.Ctx, t *executor.Tensor, slot, per int) error {
	p := &k.core.convPlan
	s := t.Shape
	if n := per * k.offsetGroups * p.taps; len(s) != 4 || s[0] != p.n || s[1] != n || s[2] != p.win.out[1] ||
		s[3] != p.win.out[2] {
		return c.Errorf("input %d has shape %v, wanted [%d %d %d %d]", slot, s, p.n, n, p.win.out[1], p.win.out[2])
	}
	return nil
}

// Range computes the pieces lo..hi-1: piece i is tile i/group of group i%group.
func (k *deformConv[T]) Range(lo, hi int) {
	core := &k.core
	s := core.slots.take()
	defer core.slots.give(s)
	work := core.slot(s)
	columns := work[core.tempLen():]
	for i := lo; i < hi; i++ {
		g := i % core.group
		from, to := core.columnsOf(i / core.group)
		if from >= to {
			continue
		}
		for c := g * core.cg; c < (g+1)*core.cg; {
			// Channels of one offset group are moved alike.
			og := c / (core.c / k.offsetGroups)
			end := min((g+1)*core.cg, (og+1)*(core.c/k.offsetGroups))
			for tap := range core.taps {
				k.sample(columns[((c-g*core.cg)*core.taps+tap)*(to-from):], og, tap, c, end, from, to)
			}
			c = end
		}
		core.multiply(g*core.mg, (g+1)*core.mg, from, to, columns, to-from, work)
	}
}

// sample writes the columns from..to-1 of a tap of the channels c0..c1-1, whose rows are taps rows
// apart.
func (k *deformConv[T]) sample(dst []T, og, tap, c0, c1, from, to int) {
	core := &k.core
	w := &core.win
	kh, kw := tap/w.kernel[2], tap%w.kernel[2]
	for j := from; j < to; j++ {
		n, at := j/core.outPlane, j%core.outPlane
		plane := (n*k.offsetGroups+og)*core.taps + tap
		y := float64(at/w.out[2]*w.stride[1]-w.begin[1]+kh*w.dilation[1]) + float64(k.offset[2*plane*core.outPlane+at])
		x := float64(at%w.out[2]*w.stride[2]-w.begin[2]+kw*w.dilation[2]) +
			float64(k.offset[(2*plane+1)*core.outPlane+at])
		scale := 1.0
		if k.mask != nil {
			scale = float64(k.mask[plane*core.outPlane+at])
		}
		offsets, weights := deformTaps(y, x, w.in[1], w.in[2], scale)
		for c := c0; c < c1; c++ {
			data := core.x[(n*core.c+c)*core.inPlane:][:core.inPlane]
			s := T(0)
			for t, o := range offsets {
				if o >= 0 {
					v := data[o] * T(weights[t])
					s += v
				}
			}
			dst[(c-c0)*core.taps*(to-from)+j-from] = s
		}
	}
}

// deformTaps returns the four elements around a place and their weights; -1 for those outside.
func deformTaps(y, x float64, height, width int, scale float64) (offsets [4]int, weights [4]float64) {
	offsets = [4]int{-1, -1, -1, -1}
	if !(y > -1 && y < float64(height) && x > -1 && x < float64(width)) {
		return offsets, weights
	}
	y0, x0 := math.Floor(y), math.Floor(x)
	fy, fx := y-y0, x-x0
	for t := range offsets {
		i, j := int(y0)+t/2, int(x0)+t%2
		wy, wx := 1-fy, 1-fx
		if t/2 == 1 {
			wy = fy
		}
		if t%2 == 1 {
			wx = fx
		}
		if i >= 0 && i < height && j >= 0 && j < width && wy*wx != 0 {
			offsets[t], weights[t] = i*width+j, wy*wx*scale
		}
	}
	return offsets, weights
}
