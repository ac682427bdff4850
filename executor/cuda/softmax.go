package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// softmaxKernel is a softmax, or the gradient of one, by kernels/softmax.h.
type softmaxKernel struct {
	axisLaunch
	gradient bool
}

// axisLaunch are the kernels of an operator that works along an axis.
type axisLaunch struct {
	*launch         // along neighbouring elements
	columns *launch // along elements that lie apart
	softmaxAxis
	shared bool // the threads of a tile share long columns
}

// newAxisLaunch gets kernels NAME_TYPE and NAMEcolumns_TYPE of MODULE_TYPE.
func newAxisLaunch(d *Device, p *executor.Prep, module, name string, coerced bool) (k axisLaunch, err error) {
	t := suffix(p.DType(0))
	k.softmaxAxis = newSoftmaxAxis(p, coerced)
	if k.launch, err = d.launch(module+"_"+t, name+"_"+t); err != nil {
		return k, err
	}
	k.columns, err = d.launch(module+"_"+t, name+"columns_"+t)
	return k, err
}

// either returns the kernel for the current axis.
func (k *axisLaunch) either() *launch {
	if k.inner > 1 {
		return k.columns
	}
	return k.launch
}

// start packs the last arguments (outer, n, inner and whether rows of a type are wide) and runs the
// kernel.
func (k *axisLaunch) start(t graph.DType) error {
	l := k.either()
	a := &l.args
	a.Int(k.outer).Int(k.n).Int(k.inner).Uint32(wide(t, k.n))
	const long, warp = 32, 32 // elements that are worth eight threads
	switch {
	case k.inner == 1:
		return l.teams(k.outer, k.n)
	case k.shared && k.n >= long:
		return l.tiles((k.outer*k.inner+warp-1)/warp, 8)
	}
	return l.line(k.outer*k.inner, 1)
}

// softmaxAxis is the axis of a Softmax or an operator like it.
type softmaxAxis struct {
	axis    int64
	given   bool
	coerced bool // the input counts as a matrix: its rows are all dims from the axis on

	at              int // the axis in the current shape
	outer, n, inner int // the input is [outer, n, inner]
}

// newSoftmaxAxis reads the attribute axis.
func newSoftmaxAxis(p *executor.Prep, coerced bool) softmaxAxis {
	normal := int64(-1)
	if coerced {
		normal = 1
	}
	return softmaxAxis{axis: p.Node.Int("axis", normal), given: p.Node.Attr("axis") != nil, coerced: coerced}
}

// softmax makes a kernel of softmax.h; old holds for operators that coerce in every version.
func softmax(name string, gradient, old bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if !isFloat(p.DType(0)) || sameTypes(p) != nil {
			return nil, noTypes(p)
		}
		l, err := newAxisLaunch(d, p, "softmax", name, old || !gradient && p.Version < 13)
		l.shared = true
		return &softmaxKernel{l, gradient}, err
	}
}

// split finds at, outer, n and inner for a shape.
func (k *softmaxAxis) split(c *executor.Ctx, shape []int) error {
	axis := len(shape)
	if !k.coerced || k.axis != int64(len(shape)) && (k.given || len(shape) > 1) {
		var err error
		if axis, err = operand.DataAxis(c, k.axis, len(shape)); err != nil {
			return err
		}
	}
	k.at, k.outer = axis, elements(shape[:axis])
	if k.coerced {
		k.n, k.inner = elements(shape[axis:]), 1
	} else {
		k.n, k.inner = shape[axis], elements(shape[axis+1:])
	}
	return nil
}

// Run computes the softmax, or its gradient.
func (k *softmaxKernel) Run(c *executor.Ctx) error {
	x, y := c.In(0), c.In(1)
	if k.gradient && !slices.Equal(x.Shape, y.Shape) {
		return c.Errorf("input 0 is %v and input 1 is %v; the shapes must be equal", x, y)
	}
	if err := k.split(c, x.Shape); err != nil {
		return err
	}
	out := c.Out(0, x.Shape...)
	if out == nil || out.Len() == 0 {
		return nil
	}
	a := k.either().begin().In(x.Data)
	if k.gradient {
		a.In(y.Data)
	} else {
		a.In(nil)
	}
	a.Out(out.Data)
	return k.start(x.DType)
}
