package cpu

import (
	"slices"

	"memopt/executor/cpu/blas"
)

// contract multiplies two operands and sums over the labels that are not kept. Labels of both operands that
// are kept are the batch axes; kept ones of x alone are the rows of the products, those of y alone the columns. With
// a target, the product is written there if it lies so that it can be.
func (p *einsumPlan) contract(x, y einsumView, keep []byte, target *einsumView) einsumView {
	x, y = p.sumOut(x, y.labels, keep), p.sumOut(y, x.labels, keep)
	order := slices.Clone(x.labels)
	for _, l := range y.labels {
		if !slices.Contains(order, l) {
			order = append(order, l)
		}
	}
	if target != nil {
		slices.SortStableFunc(order, func(a, b byte) int {
			return slices.Index(target.labels, a) - slices.Index(target.labels, b)
		})
	}
	var batch, rows, cols, sum []byte
	for _, l := range order {
		inX, inY, kept := slices.Contains(x.labels, l), slices.Contains(y.labels, l), slices.Contains(keep, l)
		switch {
		case inX && inY && kept:
			batch = append(batch, l)
		case inX && inY:
			sum = append(sum, l)
		case inX:
			rows = append(rows, l)
		default:
			cols = append(cols, l)
		}
	}
	if target != nil && len(cols) > 0 && len(rows) > 0 && target.labels[len(target.labels)-1] == rows[len(rows)-1] {
		x, y, rows, cols = y, x, cols, rows // the transpose of the product lies in rows
	}
	return p.multiply(x, y, batch, rows, cols, sum, target)
}

// multiply adds the product step of a contraction, and copies of operands that do not lie as matrices.
func (p *einsumPlan) multiply(x, y einsumView, batch, rows, cols, sum []byte, target *einsumView) einsumView {
	var s einsumStep
	x, s.a = p.matrix(x, batch, rows, sum)
	y, s.b = p.matrix(y, batch, sum, cols)
	s.m, s.n, s.k = p.size(rows), p.size(cols), p.size(sum)
	out := einsumView{buffer: -1}
	if target != nil {
		if ld, trans, ok := target.asMatrix(rows, cols); ok && !trans {
			out, s.c.ld = *target, ld
		}
	}
	if out.buffer < 0 {
		out.labels = slices.Concat(batch, rows, cols)
		for _, l := range out.labels {
			out.dims = append(out.dims, p.dims[l])
		}
		out.strides, s.c.ld = einsumStrides(out.dims), max(s.n, 1)
		out.buffer = p.workspace(product(out.dims))
	}
	s.c.buffer = out.buffer
	s.places, s.side = []blas.Place{{}}, 1
	if s.plain = !p.blas || s.m*s.n*s.k < 64; s.plain && len(batch) > 0 {
		l := batch[len(batch)-1]
		batch = batch[:len(batch)-1]
		s.side, s.sideStep.A = x.axis(l)
		_, s.sideStep.B = y.axis(l)
		_, s.sideStep.C = out.axis(l)
	}
	for _, l := range slices.Backward(batch) {
		n, da := x.axis(l)
		_, db := y.axis(l)
		_, dc := out.axis(l)
		all := make([]blas.Place, 0, n*len(s.places))
		for i := range n {
			for _, at := range s.places {
				all = append(all, blas.Place{A: at.A + i*da, B: at.B + i*db, C: at.C + i*dc})
			}
		}
		s.places = all
	}
	if len(s.places)*s.m*s.n > 0 {
		p.steps = append(p.steps, s)
	}
	return out
}

func (p *einsumPlan) size(labels []byte) int {
	n := 1
	for _, l := range labels {
		n *= p.dims[l]
	}
	return n
}

// matrix returns a view as matrices with the given labels for rows and columns, of a copy where it must be.
func (p *einsumPlan) matrix(v einsumView, batch, rows, cols []byte) (einsumView, einsumMatrix) {
	ld, trans, ok := v.asMatrix(rows, cols)
	if !ok {
		v = p.gather(v, slices.Concat(batch, rows, cols), -1)
		ld, trans = max(p.size(cols), 1), false
	}
	return v, einsumMatrix{buffer: v.buffer, ld: ld, trans: trans}
}

// asMatrix reports whether the axes of rows and those of cols each lie as one axis, one of them without
// gaps, and how far apart the lines of the other are.
func (v *einsumView) asMatrix(rows, cols []byte) (ld int, trans, ok bool) {
	m, rowStep, ok1 := v.joined(rows)
	n, colStep, ok2 := v.joined(cols)
	switch {
	case !ok1 || !ok2:
	case (colStep == 1 || n <= 1) && (rowStep >= n || m <= 1):
		return max(rowStep, n, 1), false, true
	case (rowStep == 1 || m <= 1) && (colStep >= m || n <= 1):
		return max(colStep, m, 1), true, true
	}
	return 0, false, false
}

// joined returns the length and stride of the axis that some labels make together.
func (v *einsumView) joined(labels []byte) (n, stride int, ok bool) {
	n = 1
	for _, l := range slices.Backward(labels) {
		d, s := v.axis(l)
		if d == 1 {
			continue
		}
		if n == 1 {
			n, stride = d, s
			continue
		}
		if s != n*stride {
			return 0, 0, false
		}
		n *= d
	}
	return n, stride, true
}
