package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// convKernel is Conv and, with an activation and a second summand, FusedConv.
//
// Inputs X [N, C, d…], W [M, C/group, k…], bias [M], and for FusedConv Z, shaped as the output
// Y [N, M, d'…].
//
// https://onnx.ai/onnx/operators/onnx__Conv.html
type convKernel[T convFloat] struct {
	core  convCore[T]
	attrs windowAttrs
	group int
	shape []int
}

// newConv makes a Conv.
func newConv(p *executor.Prep) (executor.Kernel, error) { return newConvOf(p, convActivation{}) }

// newFusedConv makes a FusedConv.
func newFusedConv(p *executor.Prep) (executor.Kernel, error) {
	act, err := newConvActivation(p)
	if err != nil {
		return nil, err
	}
	return newConvOf(p, act)
}

func newConvOf(p *executor.Prep, act convActivation) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newConvKernel[float32](p, act)
	case graph.Float64:
		return newConvKernel[float64](p, act)
	}
	return nil, unsupportedTypes(p)
}

func newConvKernel[T convFloat](p *executor.Prep, act convActivation) (executor.Kernel, error) {
	attrs, group, err := newConvAttrs(p)
	if err != nil {
		return nil, err
	}
	k := &convKernel[T]{attrs: attrs, group: group}
	k.core = convCore[T]{math: newConvMath[T](), act: act, threads: max(1, p.Threads)}
	k.core.lib = &convLibrary{threads: k.core.threads}
	return k, nil
}

// newConvAttrs reads the window and the number of groups.
func newConvAttrs(p *executor.Prep) (windowAttrs, int, error) {
	attrs, err := newWindowAttrs(p)
	if err != nil {
		return attrs, 0, err
	}
	group := p.Node.Int("group", 1)
	if group < 1 || group > windowBound {
		return attrs, 0, p.Errorf("attribute group is %d, wanted at least 1", group)
	}
	for _, d := range p.In {
		if d != graph.Undefined && d != p.DType(0) {
			return attrs, 0, p.Errorf("input types %v differ", p.In)
		}
	}
	return attrs, int(group), nil
}

// Workspace returns the bytes of workspace for the columns.
func (k *convKernel[T]) Workspace(in, _ [][]int) int {
	plan, err := newConvPlan(&k.attrs, k.group, in[0], in[1], sizeOfElem[T]())
	if err != nil {
		return 0
	}
	core := convCore[T]{convPlan: plan, threads: k.core.threads, lib: k.core.lib}
	core.preferLibrary()
	return core.workspace()
}

// Run checks the shapes and computes.
func (k *convKernel[T]) Run(c *executor.Ctx) error {
	x, w := c.In(0), c.In(1)
	var err error
	if k.core.convPlan, err = newConvPlan(&k.attrs, k.group, x.Shape, w.Shape, sizeOfElem[T]()); err != nil {
		return err
	}
	k.core.preferLibrary()
	k.core.bias, k.core.z = nil, nil
	if b := c.In(2); b != nil {
		if b.Rank() != 1 || b.Shape[0] != k.core.m {
			return c.Errorf("input 2 (bias) has shape %v, wanted [%d]", b.Shape, k.core.m)
		}
		k.core.bias = executor.Of[T](b)
	}
	k.shape = k.core.outShape(k.shape[:0])
	if z := c.In(3); z != nil {
		if !sameInts(z.Shape, k.shape) {
			return c.Errorf("input 3 has shape %v, wanted that of the output, %v", z.Shape, k.shape)
		}
		k.core.z = executor.Of[T](z)
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.core.x, k.core.w, k.core.y = executor.Of[T](x), executor.Of[T](w), executor.Of[T](y)
	k.core.run(c)
	return nil
}

// sizeOfElem returns the bytes of an element.
func sizeOfElem[T executor.Elem]() int {
	var e [1]T
	return len(executor.Memory(e[:]))
}
