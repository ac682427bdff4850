package parallel

import (
	"memopt/graph"
)

// multiplication is a product of matrices, or of stacks of them: which axes are its rows, columns
// and summed over, and how the operands are divided as it reads them.
type multiplication struct {
	*visit
	aRow, aSum, bSum, bCol int
	a, b                   cut
}

// product is for products of matrices.
func product(v *visit) error {
	rankA, rankB := len(v.shape(0)), len(v.shape(1))
	if rankA < 2 || rankB < 2 {
		if v.anyCut() {
			return v.block("it is no product of matrices")
		}
		return nil
	}
	m := &multiplication{visit: v, aRow: rankA - 2, aSum: rankA - 1, bSum: rankB - 2, bCol: rankB - 1}
	if v.n.Int("transA", 0) != 0 {
		m.aRow, m.aSum = m.aSum, m.aRow
	}
	if v.n.Int("transB", 0) != 0 {
		m.bSum, m.bCol = m.bCol, m.bSum
	}
	m.beginLinear()
	m.a, m.b = v.in(0), v.in(1)
	m.settle()
	return m.divide()
}

// settle gathers an operand that is divided along the sequence where the other is divided otherwise.
func (m *multiplication) settle() {
	both := m.a.kind == sequence && m.b.kind == sequence
	sums := m.a.axis == m.aSum && m.b.axis == m.bSum
	stacks := len(m.shape(0))-m.a.axis > 2 && len(m.shape(0))-m.a.axis == len(m.shape(1))-m.b.axis
	switch {
	case m.a.kind == sequence && m.b.kind == tensor:
		m.gatherInput(0)
		m.a = cut{}
	case m.a.kind == tensor && m.b.kind == sequence, both && !sums && !stacks:
		m.gatherInput(1)
		m.b = cut{}
	}
}

func (m *multiplication) divide() error {
	out := len(m.dims[m.n.Output(0)])
	switch {
	case m.a.kind == whole && m.b.kind == whole:
		return nil
	case m.a.kind != whole && m.a.axis == m.aSum, m.b.kind != whole && m.b.axis == m.bSum:
		return m.sum()
	case m.b.kind == whole && m.a.axis == m.aRow:
		return m.give(m.a.at(out - 2))
	case m.a.kind == whole && m.b.axis == m.bCol:
		return m.give(m.b.at(out - 1))
	}
	return m.stacks(out)
}

// give divides the output, and what a Gemm adds.
func (m *multiplication) give(c cut) error {
	m.set(0, c, m.from())
	if m.n.Input(2) == graph.NoValue {
		return nil
	}
	axis := len(m.shape(2)) - (len(m.dims[m.n.Output(0)]) - c.axis)
	if axis < 0 || m.shape(2)[axis] == 1 || m.want(2, c.at(axis)) {
		return nil
	}
	return m.block("%q cannot be divided like it", m.g.ValueName(m.n.Input(2)))
}

// sum is a product that sums over a divided axis: both operands are divided along it, and the ranks'
// results are added up.
func (m *multiplication) sum() error {
	c := m.a
	if c.kind == whole || c.axis != m.aSum {
		c = m.b
	}
	if !m.along(0, &m.a, c.at(m.aSum)) || !m.along(1, &m.b, c.at(m.bSum)) {
		return m.block("its operands are divided along different axes")
	}
	m.from()
	m.summed(c.kind == tensor)
	return nil
}

// along reports whether an operand is, or can be, divided so.
func (m *multiplication) along(i int, have *cut, c cut) bool {
	if have.kind != whole {
		return have.same(c)
	}
	if m.in(i).kind != whole { // it was gathered, and each rank takes its part of that
		return true
	}
	return m.want(i, c)
}

// stacks is a product of stacks of matrices that are divided alike.
func (m *multiplication) stacks(out int) error {
	c, rank := m.a, len(m.shape(0))
	if c.kind == whole {
		c, rank = m.b, len(m.shape(1))
	}
	behind := rank - c.axis
	if behind <= 2 {
		return m.block("both operands are divided, and not along the same axis")
	}
	for i, have := range []*cut{&m.a, &m.b} {
		axis := len(m.shape(i)) - behind
		if axis < 0 || m.shape(i)[axis] == 1 {
			continue
		}
		if !m.along(i, have, c.at(axis)) {
			return m.block("both operands are divided, and not along the same axis")
		}
	}
	m.set(0, c.at(out-behind), m.from())
	return nil
}
