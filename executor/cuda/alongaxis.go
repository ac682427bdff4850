package cuda

import (
	"memopt/executor"
	"memopt/graph"
)

// lines are the elements along an axis of a tensor [rows, n, inner], and the kernels for inner = 1
// and for more.
type lines struct {
	along, across  *launch
	rows, n, inner int
}

// lineKernels gets kernels NAME_TYPE and NAMEcolumns_TYPE of a module, for floats and integers.
func lineKernels(d *Device, p *executor.Prep, module, name string) (l lines, err error) {
	t := p.DType(0)
	if !isFloat(t) && t != graph.Int32 && t != graph.Int64 {
		return l, noTypes(p)
	}
	if l.along, err = d.launch(module, name+"_"+suffix(t)); err != nil {
		return l, err
	}
	l.across, err = d.launch(module, name+"columns_"+suffix(t))
	return l, err
}

// run runs the kernel for the lines of x along axis, with two flags.
func (l *lines) run(x, y *executor.Tensor, axis int, first, second bool, warps bool) error {
	l.rows, l.n, l.inner = elements(x.Shape[:axis]), x.Shape[axis], elements(x.Shape[axis+1:])
	return l.start(x.Data, y.Data, first, second, warps)
}

// start runs the kernel for rows, n and inner as they are set.
func (l *lines) start(x, y []byte, first, second bool, warps bool) error {
	k := l.along
	if l.inner > 1 {
		k = l.across
	}
	k.begin().In(x).Out(y).Int(l.rows).Int(l.n).Int(l.inner).Uint32(flag(first)).Uint32(flag(second))
	switch {
	case l.inner > 1:
		return k.line(l.rows*l.inner, 1)
	case warps:
		return k.folding(l.rows, 1)
	}
	return k.folding(l.rows, l.n)
}
