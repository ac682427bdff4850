package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// matMulFactors: batch dims that broadcast, rows, columns, and the sum.
func matMulFactors(p *Pieces) []Factor {
	at := [4]int{-2, -1, -2, -1}
	return kept(p.inBands(0, 1, at, p.product(0, 1, at)))
}

// inBands sets the grains of a product's factors: the CPU computes it in bands of ProductGrain rows,
// each alike whatever the others are, and in as many terms of its sums at a time. It takes matrices
// that share the right one for one matrix, where their rows follow each other.
func (p *Pieces) inBands(left, right int, at [4]int, list []*Factor) []*Factor {
	a, b, y := p.in(left), p.in(right), p.out(0)
	if len(list) == 0 {
		return nil
	}
	inexact(list)
	if d := p.Graph.Values[p.Node.Output(0)].Type.DType; d != graph.Float16 && d != graph.BFloat16 {
		list[0].grained(ProductGrain, ProductGrain) // Gemm or MatMulAdd goes on with it
	} // else a sum of 16 bits is rounded between parts
	batch := y[:len(y)-min(len(a)-1, 1)-min(len(b)-1, 1)]
	stack := batches{rows: 1, count: elements(batch), left: elements(a[:max(len(a)-2, 0)]),
		right: elements(b[:max(len(b)-2, 0)])}
	if first := len(list) - len(batch); len(a) > 1 {
		stack.turned, stack.rows = at[0] != -2, a[len(a)+at[0]]
		stack.rowGrain(list[first-1])
	}
	inner := stack.rows
	for i := len(batch) - 1; i >= 0; i-- {
		if f := list[len(list)-len(batch)+i]; f.Size > 1 {
			stack.batchGrain(f, inner)
		}
		inner *= batch[i]
	}
	return list
}

// batches is a stack of products: the rows of each, how many there are, and how many matrices they
// take.
type batches struct {
	rows, count, left, right int64
	turned                   bool // the left ones are transposed
}

// merged reports whether the CPU takes the stack for one product.
func (s batches) merged() bool { return !s.turned && s.right == 1 && s.left == s.count }

// batchGrain sets the grain of a factor of the stack, one of whose places has so many rows.
func (s batches) batchGrain(f *Factor, inner int64) {
	switch {
	case s.merged():
		g := int64(ProductGrain)
		if inner > 0 {
			g /= symbolic.GCD(ProductGrain, inner)
		}
		f.grained(g, g)
	case s.turned, s.count == f.Size, s.right > f.Size, s.rows%ProductGrain == 0:
		f.grained(1, 1)
	}
	// Else a part may be taken for one product where the whole is not.
}

// rowGrain sets the grain of the rows.
func (s batches) rowGrain(f *Factor) {
	switch {
	case s.count == 1 || s.rows%ProductGrain == 0:
		f.grained(ProductGrain, ProductGrain)
	case s.merged():
		f.grained(0, ProductGrain)
	default:
		f.grained(ProductGrain, s.rows)
	}
}

// product are the factors of a product of stacked matrices, that of the sum first. at are the dims of
// rows and columns of both operands, from the last dim on.
func (p *Pieces) product(left, right int, at [4]int) (list []*Factor) {
	a, b, y := p.in(left), p.in(right), p.out(0)
	if len(a) == 0 || len(b) == 0 || y == nil {
		return nil
	}
	row, col := len(a) > 1, len(b) > 1 // whether y has them; vectors lie along the sum
	sumA, sumB := len(a)-1, 0
	if row {
		sumA = len(a) + at[1]
	}
	if col {
		sumB = len(b) + at[2]
	}
	list = append(list, p.factor(a[sumA]).in(p, left, sumA).in(p, right, sumB).reduced(SumOf))
	end := len(y)
	if col {
		end--
		n := len(b) + at[3]
		list = append(list, p.factor(b[n]).in(p, right, n).out(p, 0, end))
	}
	if row {
		end--
		m := len(a) + at[0]
		list = append(list, p.factor(a[m]).in(p, left, m).out(p, 0, end))
	}
	for d := range y[:end] {
		f := p.factor(y[d]).out(p, 0, d)
		f.aligned(f.In, a[:max(len(a)-2, 0)], left, d-end)
		f.aligned(f.In, b[:max(len(b)-2, 0)], right, d-end)
		list = append(list, f)
	}
	return list
}

// fusedMatMulFactors: without the transposition of batch dims.
func fusedMatMulFactors(p *Pieces) []Factor {
	if p.Node.Int("transBatchA", 0) != 0 || p.Node.Int("transBatchB", 0) != 0 {
		return nil
	}
	at := p.transposed(len(p.in(0)) > 1, len(p.in(1)) > 1)
	return kept(p.inBands(0, 1, at, p.product(0, 1, at)))
}

// transposed are the dims of rows and columns by the attributes transA and transB.
func (p *Pieces) transposed(a, b bool) [4]int {
	at := [4]int{-2, -1, -2, -1}
	if a && p.Node.Int("transA", 0) != 0 {
		at[0], at[1] = at[1], at[0]
	}
	if b && p.Node.Int("transB", 0) != 0 {
		at[2], at[3] = at[3], at[2]
	}
	return at
}

// gemmFactors: only one of the parts of the sum adds C. An activation behind it needs the whole sum.
func gemmFactors(p *Pieces) []Factor {
	at := p.transposed(true, true)
	list := p.inBands(0, 1, at, p.product(0, 1, at))
	for i, f := range list {
		if f.Reduce != NoReduction {
			if p.hasIn(2) {
				f.Once = []int{2}
			}
			if p.Node.Attr("activation") != nil {
				list[i] = p.factor(0)
			}
			continue
		}
		if c := p.in(2); c != nil {
			f.aligned(f.In, c, 2, f.Out[0].Dim-len(p.out(0)))
		}
	}
	return kept(list)
}

// matMulIntegerFactors: as matMulFactors, where zero points are scalars.
func matMulIntegerFactors(p *Pieces) []Factor {
	if !p.scalars(2, 3) {
		return nil
	}
	list := p.product(0, 1, [4]int{-2, -1, -2, -1})
	if len(list) > 0 {
		list[0].grained(1, 1) // integers are added without rounding
	}
	return kept(list)
}

// qLinearMatMulFactors: the sum is rounded, so that those of parts do not make it.
func qLinearMatMulFactors(p *Pieces) []Factor {
	list := p.product(0, 3, [4]int{-2, -1, -2, -1})
	if len(list) == 0 || !p.scalars(1, 2, 4, 5, 6, 7) {
		return nil
	}
	return kept(list[1:])
}

// scalars reports whether inputs have one element, or are left out.
func (p *Pieces) scalars(slots ...int) bool {
	for _, slot := range slots {
		if p.hasIn(slot) && (p.in(slot) == nil || elements(p.in(slot)) != 1) {
			return false
		}
	}
	return true
}

// einsumFactors: the labels; those that the result lacks are summed.
func einsumFactors(p *Pieces) []Factor {
	eq, fault := parseEinsum(p.Node.Str("equation", ""))
	if fault != "" || len(eq.terms) != len(p.Node.Inputs) || slices.Contains(eq.result, ellipsis) {
		return nil
	}
	var labels []rune
	for _, term := range eq.terms {
		for i, label := range term {
			if label == ellipsis || slices.Contains(term[:i], label) {
				return nil // broadcast or a diagonal
			}
			if !slices.Contains(labels, label) {
				labels = append(labels, label)
			}
		}
	}
	var list []*Factor
	for _, label := range labels {
		list = append(list, p.labelFactor(eq, label))
	}
	return kept(inexact(list)) // how the CPU computes it depends on all sizes
}

func (p *Pieces) labelFactor(eq einsum, label rune) *Factor {
	var f *Factor
	for slot, term := range eq.terms {
		d, dims := slices.Index(term, label), p.in(slot)
		switch {
		case d < 0:
		case d >= len(dims):
			return p.factor(0)
		case f == nil:
			f = p.factor(dims[d]).in(p, slot, d)
		default:
			f.in(p, slot, d)
		}
	}
	if d := slices.Index(eq.result, label); d >= 0 {
		return f.out(p, 0, d)
	}
	return f.reduced(SumOf)
}

// reduceFactors: the dims that stay, and those that go where parts of the result make the whole.
func reduceFactors(by Reduction) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		x, y := p.in(0), p.out(0)
		axes, ok := p.ints(1, "axes")
		if x == nil || y == nil || !ok {
			return nil
		}
		gone, ok := p.gone(axes, len(x))
		if !ok {
			return nil
		}
		var list []*Factor
		at := 0
		for d, n := range x {
			f := p.factor(n).in(p, 0, d)
			if by != MaxOf && by != MinOf && !reducedAlone(x, gone, d) {
				f.grained(0, 0)
			}
			if gone[d] {
				if len(y) == len(x) {
					at++
				}
				if by == NoReduction {
					continue
				}
				list = append(list, f.reduced(by))
				continue
			}
			list = append(list, f.out(p, 0, at))
			at++
		}
		return kept(list)
	}
}

// reducedAlone reports whether the CPU reduces each place of a dim in the same order, however many there are.
// That of a sum depends on how many lie side by side, and long sums are cut if there are few of them.
func reducedAlone(x []int64, gone []bool, d int) bool {
	const blocks, block = 32, 1024 // from so many blocks on, sums are cut
	first, terms, runs := len(x), int64(1), true
	for i, n := range x {
		if gone[i] {
			first, terms = min(first, i), terms*n
		}
		runs = runs && (gone[i] || first == len(x))
	}
	if runs {
		return terms < blocks*block-block // and d lies before them
	}
	return d < first && terms < blocks
}

// gone marks the axes that a reduction folds.
func (p *Pieces) gone(axes []int64, rank int) (gone []bool, ok bool) {
	all := len(axes) == 0 && p.Node.Int("noop_with_empty_axes", 0) != 1
	gone = slices.Repeat([]bool{all}, rank)
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		if a < 0 || a >= int64(rank) {
			return nil, false
		}
		gone[a] = true
	}
	return gone, true
}

// alongAxis: every dim but that of an attribute, which the result has as one, not at all, or with
// another length.
func alongAxis(preset int64, params ...int) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		x, y := p.in(0), p.out(0)
		axis, ok := p.axis("axis", preset, len(x))
		if !ok || y == nil {
			return nil
		}
		var list []*Factor
		for d := range x {
			if d == axis {
				continue
			}
			f := p.factor(x[d])
			for slot := range p.Node.Inputs {
				if !slices.Contains(params, slot) {
					f.in(p, slot, d)
				}
			}
			to := d
			if len(y) < len(x) && d > axis {
				to--
			}
			for slot := range p.Node.Outputs {
				f.out(p, slot, to)
			}
			list = append(list, f)
		}
		return kept(list)
	}
}

// cumSumFactors: the axis is an input.
func cumSumFactors(p *Pieces) []Factor {
	axis, ok := p.ints(1, "")
	if !ok || len(axis) != 1 {
		return nil
	}
	if axis[0] < 0 {
		axis = []int64{axis[0] + int64(len(p.in(0)))}
	}
	var list []*Factor
	for d := range p.in(0) {
		if int64(d) != axis[0] {
			list = append(list, p.sameDim(d, []int{1}, nil))
		}
	}
	return kept(list)
}

// stacked: all dims but the last ones, which are matrices.
func stacked(last int, params ...int) func(*Pieces) []Factor {
	return func(p *Pieces) []Factor {
		var list []*Factor
		for d := range max(len(p.in(0))-last, 0) {
			list = append(list, p.sameDim(d, params, nil))
		}
		return kept(list)
	}
}

// preluFactors: before version 7, slopes are for channels, whatever dim they would be broadcast to.
func preluFactors(p *Pieces) []Factor {
	if p.Version < 7 && !p.scalars(1) {
		return nil
	}
	return elementwise(p)
}

// elementwiseGrads: a gradient and the operands of an elementwise operator give gradients of operands
// that were broadcast.
func elementwiseGrads(p *Pieces) []Factor {
	return kept(p.aligned(p.in(0), upTo(len(p.Node.Inputs)), upTo(len(p.Node.Outputs))))
}
