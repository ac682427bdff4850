package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// The options of torch.optim.Adafactor (torch/optim/_adafactor.py of PyTorch 2.15) at their defaults: the exponent of
// the share of new squares, the least root of a mean of squares (that of float32), the least size of a parameter that
// counts, and the bound of an update's root mean square.
const (
	factorDecay = -0.8
	factorLeast = 0x1p-23
	factorSize  = 1e-3
	factorMost  = 1.0
)

// adafactor: with the share w = t^-0.8, R' = R + w·(mean of g² along the last dim - R), C' likewise along the dim
// before it, V = R'·C'/max(mean of R', eps), or V' = V + w·(g² - V) of a vector; u = g/√max(V, eps²);
// p' = p - min(lr, t^-0.5)·max(1e-3, rms(p))·u/max(1, rms(u)). V is the one value of the parameter's size beside the
// gradient, and u lies over it. A guard chooses zeros for u and the means of g², and not for g, which would then be
// there twice.
func (u *updater) adafactor(param, old, from, grad Value, pace *pace) Value {
	d := u.DType(grad)
	toward := func(v, squares Value) Value {
		return u.Add(v, u.Mul(u.Sub(u.guarded(squares), v), u.scalar(u.share, d, 0)))
	}
	shape := u.Type(param).Shape
	var v Value
	if rank := int64(len(u.Ranked(param, 0))); rank > 1 {
		mean := func(axis int64, suffix string) Value {
			dims := slices.Clone(shape.Dims)
			dims[axis] = symbolic.Const(1)
			of := graph.Dims(dims...)
			squares := u.overCount(u.Reduce("ReduceSumSquare", grad, true, axis), grad, axis)
			return u.state(param, suffix, of, func(v Value) Value { return toward(v, squares) })
		}
		row, column := mean(rank-1, RowSuffix), mean(rank-2, ColumnSuffix)
		all := u.Reduce("ReduceMean", row, true, rank-2)
		v = u.Div(u.Mul(row, column), u.Op("Max", nil, all, u.Scalar(factorLeast, all)))
	} else {
		v = u.state(param, VarianceSuffix, shape, func(v Value) Value { return toward(v, u.Mul(grad, grad)) })
	}
	v = u.Op("Max", nil, v, u.Scalar(factorLeast*factorLeast, v))
	update := u.guarded(u.Div(grad, u.Op("Sqrt", nil, v)))
	size := u.Op("Max", nil, u.rootMeanSquare(old), u.Scalar(factorSize, grad))
	bound := u.Op("Max", nil, u.Div(u.rootMeanSquare(update), u.Scalar(factorMost, grad)), u.Scalar(1, grad))
	return u.Sub(from, u.Mul(update, u.Div(u.Mul(size, u.scalar(pace.stepSize, d, 0)), bound)))
}

// rootMeanSquare is the root of the mean of the squares of all elements.
func (u *updater) rootMeanSquare(v Value) Value {
	square := u.Op("ReduceSumSquare", Attrs{A("keepdims", int64(0))}, v)
	axes := make([]int64, len(u.Ranked(v, 0)))
	for i := range axes {
		axes[i] = int64(i)
	}
	return u.Op("Sqrt", nil, u.overCount(square, v, axes...))
}
