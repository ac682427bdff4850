package op

import (
	"math"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// block is the contents of a small tensor: its elements in row-major order, each
// the quotient of an expression and the common denominator den. Integers and bools
// (0 and 1) have den 1; floats appear where exporters compute sizes with them (a
// scale factor times a dim, then Floor and Cast), exactly, as fractions: the rounding
// of float arithmetic itself is not followed.
type block struct {
	dims  []int
	elems []symbolic.Expr
	den   int64
}

// maxDen bounds the denominators that floats may have: two of them multiply
// without leaving int64.
const maxDen = 1 << 30

// floatContents is the most elements of a float constant that is read as fractions. Lists of scales
// have one per axis.
const floatContents = 16

// maxRank is the largest rank of a shape of unknown dims that is made from the length of a shape
// tensor.
const maxRank = 1024

// block returns the contents of input i; ok is false where they are not known.
func (c *Ctx) block(i int) (b block, ok bool) {
	id := c.Node.Input(i)
	if id == graph.NoValue {
		return block{}, false
	}
	elems := c.inf.res.contents.get(id)
	if elems == nil {
		return block{}, false
	}
	dims, ok := smallDims(c.Shape(i), len(elems))
	if !ok {
		return block{}, false
	}
	return block{dims, elems, c.inf.res.den(id)}, true
}

// smallDims returns a shape as numbers if it holds the given number of elements.
func smallDims(s graph.Shape, elements int) ([]int, bool) {
	if !s.Ranked {
		return nil, false
	}
	dims := make([]int, len(s.Dims))
	n := int64(1)
	for i, d := range s.Dims {
		v, ok := d.Const()
		if !ok || v < 0 || v > maxContents {
			return nil, false
		}
		dims[i] = int(v)
		if n *= v; n > maxContents {
			return nil, false
		}
	}
	return dims, int(n) == elements
}

// setBlock records the contents of output i. Contents without any known element are not kept.
func (c *Ctx) setBlock(i int, b block) {
	id := c.Node.Output(i)
	if id == graph.NoValue || len(b.elems) > maxContents || b.den > maxDen {
		return
	}
	if n, known := c.OutElements(i).Const(); known && n != int64(len(b.elems)) {
		return // no run has such a shape; it cannot be represented
	}
	if b.elems = withoutFailures(b.elems); b.elems != nil {
		c.SetContents(i, b.elems)
		c.inf.res.setDen(id, b.den)
	}
}

// withoutFailures makes elements unknown whose computation overflowed int64, because a run wraps
// them. It returns nil if all elements are unknown.
func withoutFailures(elems []symbolic.Expr) []symbolic.Expr {
	known := len(elems) == 0
	out := elems
	for i, e := range elems {
		known = known || e.IsKnown()
		if e.Err() == nil {
			continue
		}
		if &out[0] == &elems[0] {
			out = slices.Clone(elems)
		}
		out[i] = symbolic.Unknown()
	}
	if !known {
		return nil
	}
	if out == nil {
		return []symbolic.Expr{}
	}
	return out
}

// passContents gives output 0 the elements of input 0: a change of shape or of
// an integer type keeps them.
func (c *Ctx) passContents() {
	if b, ok := c.block(0); ok {
		c.setBlock(0, b)
	}
}

// size returns the number of elements of a block with the given dims, or -1
// where it is more than contents are carried for.
func size(dims []int) int {
	n := 1
	for _, d := range dims {
		if n *= d; n > maxContents {
			return -1
		}
	}
	return n
}

// strides returns the distance of neighbours along each axis in row-major order.
func strides(dims []int) []int {
	s := make([]int, len(dims))
	n := 1
	for i := len(dims) - 1; i >= 0; i-- {
		s[i] = n
		n *= dims[i]
	}
	return s
}

// eachIndex calls f for every index of a block with the given dims in row-major order.
func eachIndex(dims []int, f func(index []int)) {
	if size(dims) <= 0 {
		return
	}
	index := make([]int, len(dims))
	for {
		f(index)
		axis := len(dims) - 1
		for ; axis >= 0; axis-- {
			if index[axis]++; index[axis] < dims[axis] {
				break
			}
			index[axis] = 0
		}
		if axis < 0 {
			return
		}
	}
}

// pick makes a block with the given dims whose elements are taken from b, at the flat positions
// that from gives.
func (b block) pick(dims []int, from func(index []int) int) (block, bool) {
	if size(dims) < 0 {
		return block{}, false
	}
	out := block{dims: dims, den: b.den, elems: make([]symbolic.Expr, 0, size(dims))}
	eachIndex(dims, func(index []int) { out.elems = append(out.elems, b.elems[from(index)]) })
	return out, true
}

// stretched returns the flat position of index in a block of smaller or equal
// rank that numpy's rules stretch to the index's shape.
func (b block) stretched(index []int) int {
	skip, at := len(index)-len(b.dims), 0
	for i, d := range b.dims {
		at *= d
		if d != 1 {
			at += index[skip+i]
		}
	}
	return at
}

// over returns the elements over a multiple of the block's denominator.
func (b block) over(den int64) []symbolic.Expr {
	if den == b.den {
		return b.elems
	}
	factor := symbolic.Const(den / b.den)
	out := make([]symbolic.Expr, len(b.elems))
	for i, e := range b.elems {
		out[i] = e.Mul(factor)
	}
	return out
}

// commonDen returns the least common multiple of two denominators; ok is false
// where it is too large.
func commonDen(a, b int64) (den int64, ok bool) {
	g := symbolic.GCD(a, b)
	den = a / g * b
	return den, den <= maxDen
}

// fraction returns the simplest fraction that the element type rounds to x, so that 0.1
// is 1/10. The convergents of x's continued fraction are tried in turn.
func fraction(x float64, double bool) (num, den int64, ok bool) {
	if math.IsNaN(x) || math.Abs(x) > 1<<31 {
		return 0, 0, false
	}
	same := func(p, q int64) bool {
		r := float64(p) / float64(q)
		return r == x || !double && float32(r) == float32(x)
	}
	p0, q0, p1, q1 := int64(0), int64(1), int64(1), int64(0)
	rest := x
	for range 40 {
		whole := math.Floor(rest)
		if math.Abs(whole) > 1<<31 {
			return 0, 0, false
		}
		w := int64(whole)
		if q1 != 0 && w > maxDen/q1 {
			return 0, 0, false
		}
		p0, q0, p1, q1 = p1, q1, w*p1+p0, w*q1+q0
		if q1 > maxDen {
			return 0, 0, false
		}
		if same(p1, q1) {
			return p1, q1, true
		}
		if rest -= whole; rest == 0 {
			return 0, 0, false
		}
		rest = 1 / rest
	}
	return 0, 0, false
}

// tensorBlock is readBlock for a tensor inside the model, whose contents have been checked.
func tensorBlock(t *graph.TensorData) (elems []symbolic.Expr, den int64) {
	elems, den, _ = readBlock(t)
	return elems, den
}

// readBlock reads the elements of a small constant; the elements are nil where they cannot be
// carried along. The error says why contents outside the model cannot be read.
func readBlock(t *graph.TensorData) (elems []symbolic.Expr, den int64, err error) {
	n, err := t.Elements()
	if err != nil || n > maxContents {
		return nil, 1, nil
	}
	switch {
	case t.DType.IsInteger() && t.DType.Bits() >= 8, t.DType == graph.Bool:
		ints, err := t.Int64s()
		if err != nil {
			return nil, 1, err
		}
		return constants(ints), 1, nil
	case (t.DType == graph.Float32 || t.DType == graph.Float64) && n <= floatContents:
		floats, err := t.Float64s()
		if err != nil {
			return nil, 1, err
		}
		elems, den = fractions(floats, t.DType == graph.Float64)
		return elems, den, nil
	}
	return nil, 1, nil
}

func constants(ints []int64) []symbolic.Expr {
	out := make([]symbolic.Expr, len(ints))
	for i, x := range ints {
		out[i] = symbolic.Const(x)
	}
	return out
}

// fractions brings floats to a common denominator; nil if a float has no such fraction.
func fractions(floats []float64, double bool) ([]symbolic.Expr, int64) {
	den, ok := int64(1), true
	nums, dens := make([]int64, len(floats)), make([]int64, len(floats))
	for i, x := range floats {
		if nums[i], dens[i], ok = fraction(x, double); !ok {
			return nil, 1
		}
		if den, ok = commonDen(den, dens[i]); !ok {
			return nil, 1
		}
	}
	out := make([]symbolic.Expr, len(floats))
	for i := range floats {
		out[i] = symbolic.Const(nums[i]).Mul(symbolic.Const(den / dens[i]))
	}
	return out, den
}

// den returns the denominator of a value's contents.
// setContents records the elements of a value; nil means that they are not known.
func (r *Result) setContents(id graph.ValueID, elems []symbolic.Expr) {
	if elems == nil {
		r.contents.drop(id)
		return
	}
	r.contents.set(id, elems)
}

func (r *Result) den(id graph.ValueID) int64 {
	if d, ok := r.dens[id]; ok {
		return d
	}
	return 1
}

func (r *Result) setDen(id graph.ValueID, den int64) {
	if den == 1 {
		delete(r.dens, id)
		return
	}
	if r.dens == nil {
		r.dens = map[graph.ValueID]int64{}
	}
	r.dens[id] = den
}

// ShapeFrom returns the shape whose dims are the elements of input i. Where only
// their number is known, so is only the rank.
func (c *Ctx) ShapeFrom(i int) graph.Shape {
	if s := c.Shape(i); s.Ranked && len(s.Dims) != 1 {
		c.Errorf("input %d has shape %v, wanted a list of dims, of rank 1", i, s)
		return graph.Shape{}
	}
	elems, ok := c.Contents(i)
	if !ok {
		if n, ok := c.length(i); ok && n <= maxRank {
			return graph.UnknownDims(int(n))
		}
		return graph.Shape{}
	}
	return graph.Dims(elems...)
}

// length returns the number of elements of input i of rank 1.
func (c *Ctx) length(i int) (int64, bool) {
	s := c.Shape(i)
	if len(s.Dims) != 1 {
		return 0, false
	}
	return s.Dims[0].Const()
}
