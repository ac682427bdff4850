package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// rangeRule: max(0, ceil((limit-start)/delta)) numbers from start on.
func rangeRule(c *Ctx) {
	c.want(0, numbers)
	dtype := c.sameTypes(0, 1, 2)
	for i := range 3 {
		c.wantScalar(i)
	}
	if c.Failed() {
		return
	}
	n := symbolic.Unknown()
	start, delta, den, ok := c.progression(&n)
	c.OutTensor(0, dtype, graph.Dims(n))
	if !ok {
		return
	}
	if count, isConst := n.Const(); isConst && count <= maxContents {
		out := block{dims: []int{int(count)}, den: den, elems: make([]symbolic.Expr, count)}
		for i := range out.elems {
			out.elems[i] = start.Add(delta.Mul(symbolic.Const(int64(i))))
		}
		c.setBlock(0, out)
	}
}

// progression returns the first number and the difference over a common denominator, and
// the count of numbers. Only a difference whose sign is known gives a count.
func (c *Ctx) progression(n *symbolic.Expr) (start, delta symbolic.Expr, den int64, ok bool) {
	var v [3]symbolic.Expr
	var b [3]block
	den = 1
	for i := range b {
		if b[i], ok = c.block(i); !ok || len(b[i].elems) != 1 {
			return start, delta, den, false
		}
		if den, ok = commonDen(den, b[i].den); !ok {
			return start, delta, den, false
		}
	}
	for i := range b {
		v[i] = b[i].over(den)[0]
	}
	start, delta = v[0], v[2]
	distance := v[1].Sub(start)
	switch {
	case delta.IsConst(0):
		c.Errorf("the difference is 0")
	case delta.IsConst(1):
		*n = larger(distance, symbolic.Const(0))
	case positive(delta):
		*n = larger(distance.CeilDiv(delta), symbolic.Const(0))
	case positive(delta.Neg()):
		*n = larger(distance.Neg().CeilDiv(delta.Neg()), symbolic.Const(0))
	}
	return start, delta, den, true
}
