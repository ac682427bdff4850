package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/operand"
)

// softmaxKernel is a softmax, or the gradient of one, by kernels/softmax.h.
type softmaxKernel struct {
	*launch          // along neighbouring elements
	columns  *launch // along elements that lie apart
	axis     int64
	given    bool
	coerced  bool // the input counts as a matrix: its rows are all dims from the axis on
	gradient bool
	rows, n  int
	inner    int
}

// softmax makes a kernel of softmax.h; old holds for operators that coerce in every version.
func softmax(name string, gradient, old bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if !isFloat(p.DType(0)) || sameTypes(p) != nil {
			return nil, noTypes(p)
		}
		k := &softmaxKernel{gradient: gradient, coerced: old || !gradient && p.Version < 13, given: p.Node.Attr("axis") != nil}
		k.axis = p.Node.Int("axis", -1)
		if k.coerced {
			k.axis = p.Node.Int("axis", 1)
		}
		t := suffix(p.DType(0))
		var err error
		if k.launch, err = d.launch("softmax_"+t, name+"_"+t); err != nil {
			return nil, err
		}
		k.columns, err = d.launch("softmax_"+t, name+"columns_"+t)
		return k, err
	}
}

// split finds rows, n and inner for a shape.
func (k *softmaxKernel) split(c *executor.Ctx, shape []int) error {
	axis := len(shape)
	if !k.coerced || k.axis != int64(len(shape)) && (k.given || len(shape) > 1) {
		var err error
		if axis, err = operand.DataAxis(c, k.axis, len(shape)); err != nil {
			return err
		}
	}
	k.rows = elements(shape[:axis])
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
	l := k.launch
	if k.inner > 1 {
		l = k.columns
	}
	a := l.begin()
	a.In(x.Data)
	if k.gradient {
		a.In(y.Data)
	} else {
		a.In(nil)
	}
	a.Out(out.Data)
	a.Int(k.rows)
	a.Int(k.n)
	a.Int(k.inner)
	a.Uint32(wide(x.DType, k.n))
	if k.inner > 1 {
		return l.line(k.rows*k.inner, 1)
	}
	return l.teams(k.rows, k.n)
}
