package op

import "memopt/graph"

// Rules of operators that compute every element of the result from one element of
// each operand.

// unaryRule is the rule of y = f(x) with y like x.
func unaryRule(set dtypeSet, fold func(*Ctx)) func(*Ctx) {
	return func(c *Ctx) {
		if c.want(0, set) {
			c.Out(0, tensorOf(c.In(0)))
		}
		runFold(c, fold)
	}
}

// testRule is the rule of unary tests such as IsNaN, whose result is bool.
func testRule(set dtypeSet) func(*Ctx) {
	return func(c *Ctx) {
		c.want(0, set)
		c.OutTensor(0, graph.Bool, c.Shape(0))
	}
}

// binaryRule is the rule of z = f(x, y) with numpy's broadcasting, all of one type.
func binaryRule(set dtypeSet, fold func(*Ctx)) func(*Ctx) {
	return func(c *Ctx) {
		c.want(0, set)
		c.OutTensor(0, c.sameTypes(0, 1), c.operands())
		runFold(c, fold)
	}
}

// compareRule is binaryRule with bools as the result.
func compareRule(set dtypeSet, fold func(*Ctx)) func(*Ctx) {
	return func(c *Ctx) {
		c.want(0, set)
		c.sameTypes(0, 1)
		c.OutTensor(0, graph.Bool, c.operands())
		runFold(c, fold)
	}
}

// variadicRule is the rule of Sum, Mean, Max and Min.
func variadicRule(fold func(*Ctx)) func(*Ctx) {
	return func(c *Ctx) {
		slots := make([]int, len(c.Node.Inputs))
		for i := range slots {
			slots[i] = i
		}
		c.want(0, numbers)
		c.OutTensor(0, c.sameTypes(slots...), c.Broadcast(slots...))
		runFold(c, fold)
	}
}

// operands returns the shape of the two operands together. Before version 7 the
// second one was stretched to the first, at a place that the attribute axis named.
func (c *Ctx) operands() graph.Shape {
	if c.Version < 7 && c.Info.Since[0] == 1 {
		return c.Shape(0)
	}
	return c.Broadcast(0, 1)
}

func runFold(c *Ctx, fold func(*Ctx)) {
	if fold != nil && !c.Failed() {
		fold(c)
	}
}

// tensorOf returns the type of a result that is like an input: a tensor, whose shape and
// element type are as known as the input's.
func tensorOf(t graph.Type) graph.Type { return graph.Tensor(t.DType, t.Shape) }

// powRule: the exponent may have another type from version 12 on; the result is like the base.
func powRule(c *Ctx) {
	c.want(0, numbers)
	if c.Version < 12 {
		c.sameTypes(0, 1)
	}
	c.OutTensor(0, c.DType(0), c.operands())
}

// preluRule: the slope is stretched to the input, never the input to the slope.
func preluRule(c *Ctx) {
	c.want(0, numbers)
	c.sameTypes(0, 1)
	if c.Version >= 7 {
		c.broadcastTo("the slope", c.Shape(1), c.Shape(0))
	}
	c.OutTensor(0, c.DType(0), c.Shape(0))
}

// clipRule: the bounds were attributes before version 11 and are scalar inputs since.
func clipRule(c *Ctx) {
	c.want(0, numbers)
	for i := 1; i < len(c.Node.Inputs); i++ {
		if c.Has(i) {
			c.sameTypes(0, i)
			c.wantScalar(i)
		}
	}
	c.OutTensor(0, c.DType(0), c.Shape(0))
}

// wantScalar calls Errorf where input i is known to hold another number of elements than one.
func (c *Ctx) wantScalar(i int) {
	s := c.Shape(i)
	if n, ok := s.Elements().Const(); s.Rank() > 1 || ok && n != 1 {
		c.Errorf("input %d has shape %v, wanted a scalar", i, s)
	}
}

// whereRule: condition, X and Y broadcast together.
func whereRule(c *Ctx) {
	c.want(0, bools)
	c.OutTensor(0, c.sameTypes(1, 2), c.Broadcast(1, 2, 0))
	if !c.Failed() {
		foldWhere(c)
	}
}

// foldWhere selects the elements whose condition is known, or whose two choices are equal.
func foldWhere(c *Ctx) {
	cond, ok := c.block(0)
	if !ok {
		return
	}
	x, y, den, ok := c.pair(1, 2)
	if !ok {
		return
	}
	dims, ok := broadcastInts(x.dims, y.dims)
	if ok {
		dims, ok = broadcastInts(dims, cond.dims)
	}
	if !ok || size(dims) < 0 {
		return
	}
	out := block{dims: dims, den: den}
	eachIndex(dims, func(index []int) {
		out.elems = append(out.elems, choose(cond.elems[cond.stretched(index)],
			x.elems[x.stretched(index)], y.elems[y.stretched(index)]))
	})
	c.setBlock(0, out)
}
