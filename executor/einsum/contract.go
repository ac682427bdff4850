package einsum

import "slices"

// contract multiplies two operands and sums over the labels that are not kept. Labels of both
// operands that are kept are the batch axes; kept ones of x alone are the rows of the products,
// those of y alone the columns. With a target, the product is written there if its layout permits.
func (p *Plan) contract(x, y view, keep []byte, target *view) view {
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

// multiply adds the product step of a contraction, and copies of operands that are not laid out as
// matrices.
func (p *Plan) multiply(x, y view, batch, rows, cols, sum []byte, target *view) view {
	s := Step{Product: true}
	x, s.A = p.matrix(x, batch, rows, sum)
	y, s.B = p.matrix(y, batch, sum, cols)
	s.M, s.N, s.K = p.size(rows), p.size(cols), p.size(sum)
	out := view{buffer: -1}
	if target != nil {
		if ld, trans, ok := target.asMatrix(rows, cols); ok && !trans {
			out, s.C.LD = *target, ld
		}
	}
	if out.buffer < 0 {
		out.labels = slices.Concat(batch, rows, cols)
		for _, l := range out.labels {
			out.dims = append(out.dims, p.dims[l])
		}
		out.strides, s.C.LD = strides(out.dims), max(s.N, 1)
		out.buffer = p.workspace(product(out.dims))
	}
	s.C.Buffer = out.buffer
	for _, l := range batch {
		n, da := x.axis(l)
		_, db := y.axis(l)
		_, dc := out.axis(l)
		s.Batch = append(s.Batch, Axis{n, da, db, dc})
	}
	if p.size(batch)*s.M*s.N > 0 {
		p.Steps = append(p.Steps, s)
	}
	return out
}

// size returns how many elements some labels have together.
func (p *Plan) size(labels []byte) int {
	n := 1
	for _, l := range labels {
		n *= p.dims[l]
	}
	return n
}

// matrix returns a view as matrices with the given labels for rows and columns, of a copy if
// necessary.
func (p *Plan) matrix(v view, batch, rows, cols []byte) (view, Matrix) {
	ld, trans, ok := v.asMatrix(rows, cols)
	if !ok {
		v = p.gather(v, slices.Concat(batch, rows, cols), -1)
		ld, trans = max(p.size(cols), 1), false
	}
	return v, Matrix{Buffer: v.buffer, LD: ld, Trans: trans}
}

// asMatrix reports whether the axes of rows and those of cols each lie as one axis, one of them
// without gaps, and how far apart the lines of the other are.
func (v *view) asMatrix(rows, cols []byte) (ld int, trans, ok bool) {
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
func (v *view) joined(labels []byte) (n, stride int, ok bool) {
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
