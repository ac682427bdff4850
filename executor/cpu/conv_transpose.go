package cpu

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
)

// convTransposeKernel is ConvTranspose: X [N, C, d…], W [C, M/group, k…] and bias [M] give
// Y [N, M, d'…], the gradient of the input of a convolution from M to C channels. On every axis
//
//	d' = stride*(d-1) + output_padding + extent - begin - end
//
// unless output_shape states d', or auto_pad SAME_* makes it stride*d; the pads follow then.
//
// https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
type convTransposeKernel[T convFloat] struct {
	attrs         windowAttrs
	group         int
	extra, stated []int // output_padding and output_shape
	back          convBack[T]
	shape         []int
}

// newConvTranspose makes a ConvTranspose.
func newConvTranspose(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newConvTransposeKernel[float32](p)
	case graph.Float64:
		return newConvTransposeKernel[float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newConvTransposeKernel[T convFloat](p *executor.Prep) (executor.Kernel, error) {
	attrs, group, err := newConvAttrs(p)
	if err != nil {
		return nil, err
	}
	k := &convTransposeKernel[T]{attrs: attrs, group: group}
	if k.extra, err = windowInts(p, "output_padding", 0); err != nil {
		return nil, err
	}
	if k.stated, err = windowInts(p, "output_shape", 1); err != nil {
		return nil, err
	}
	k.back.math, k.back.threads = newConvMath[T](), max(1, p.Threads)
	k.back.lib = &convLibrary{threads: k.back.threads}
	return k, nil
}

// plan makes the plan of the convolution whose transpose this is.
func (k *convTransposeKernel[T]) plan(x, w []int) (p convPlan, err error) {
	n, c, spatial, err := windowPlanes(x)
	if err != nil {
		return p, err
	}
	if len(w) != len(x) || w[0] != c || c%k.group != 0 {
		return p, fmt.Errorf("the weights have shape %v, the data %v, in %d groups: wanted equal ranks, and %d "+
			"filters, divisible by the groups",
			append([]int(nil), w...), append([]int(nil), x...), k.group, c)
	}
	if p.win, err = k.attrs.onto(spatial, w[2:]); err != nil {
		return p, err
	}
	if err := k.spread(&p.win); err != nil {
		return p, err
	}
	p.n, p.c, p.m, p.group, p.cg, p.mg = n, w[1]*k.group, c, k.group, w[1], c/k.group
	p.taps = windowVolume(p.win.kernel)
	p.depth = p.cg * p.taps
	p.inPlane, p.outPlane = windowVolume(p.win.in), windowVolume(p.win.out)
	return p, nil
}

// spread reverses the window: onto's input becomes the places, and the input has the size of Y.
func (k *convTransposeKernel[T]) spread(w *slidingWindow) error {
	w.out = w.in
	stated := k.stated
	if len(stated) == w.rank+2 {
		stated = stated[2:] // files that also list batch and channel are common
	}
	if len(stated) != 0 && len(stated) != w.rank {
		return fmt.Errorf("attribute output_shape has %d entries, wanted %d", len(stated), w.rank)
	}
	var extra [maxWindowAxes]int
	off := maxWindowAxes - w.rank
	if err := windowList("output_padding", k.extra, extra[off:]); err != nil {
		return err
	}
	for i := off; i < maxWindowAxes; i++ {
		if extra[i] > 0 && extra[i] >= max(w.stride[i], w.dilation[i]) {
			return fmt.Errorf("output_padding is %d on spatial axis %d, wanted less than the stride %d or the "+
				"dilation %d",
				extra[i], i-off, w.stride[i], w.dilation[i])
		}
		full := (w.out[i]-1)*w.stride[i] + extra[i] + w.extent(i)
		same := k.attrs.autoPad == "SAME_UPPER" || k.attrs.autoPad == "SAME_LOWER"
		switch {
		case len(stated) > 0:
			w.in[i] = stated[i-off]
		case same:
			w.in[i] = w.out[i] * w.stride[i]
		default:
			w.in[i] = full - w.begin[i] - w.finish[i]
		}
		if len(stated) > 0 || same {
			total := max(0, full-w.in[i])
			w.begin[i] = total - total/2
			if k.attrs.autoPad == "SAME_UPPER" {
				w.begin[i] = total / 2
			}
			w.finish[i] = total - w.begin[i]
		}
		if w.in[i] < 0 {
			return fmt.Errorf("spatial axis %d of the output has size %d: pads %d and %d take more than there is",
				i-off, w.in[i], w.begin[i], w.finish[i])
		}
	}
	return nil
}

// Workspace returns the bytes of workspace for the columns.
func (k *convTransposeKernel[T]) Workspace(in, _ [][]int) int {
	plan, err := k.plan(in[0], in[1])
	if err != nil {
		return 0
	}
	b := convBack[T]{convCore: convCore[T]{convPlan: plan, threads: k.back.threads, lib: k.back.lib}}
	b.cut()
	return b.workspace()
}

// Run checks the shapes and computes.
func (k *convTransposeKernel[T]) Run(c *executor.Ctx) error {
	x, w := c.In(0), c.In(1)
	var err error
	if k.back.convPlan, err = k.plan(x.Shape, w.Shape); err != nil {
		return err
	}
	b := &k.back
	b.cut()
	b.bias = nil
	if t := c.In(2); t != nil {
		if t.Rank() != 1 || t.Shape[0] != b.c {
			return c.Errorf("input 2 (bias) has shape %v, wanted [%d]", t.Shape, b.c)
		}
		b.bias = executor.Of[T](t)
	}
	k.shape = append(k.shape[:0], b.n, b.c)
	k.shape = append(k.shape, b.win.in[maxWindowAxes-b.win.rank:]...)
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	b.x, b.y, b.w = executor.Of[T](y), executor.Of[T](x), executor.Of[T](w)
	b.run(c)
	return nil
}
