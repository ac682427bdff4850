package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// matrixView is a matrix, or a stack of matrices in its last two dims, that is read as it is or
// transposed.
type matrixView struct {
	v Value
	t bool // read transposed
}

// T is the transpose.
func (m matrixView) T() matrixView { return matrixView{m.v, !m.t} }

// lastTwo is the permutation that swaps the last two of rank axes.
func lastTwo(rank int) []int64 {
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	return perm
}

// through looks through a Transpose that swaps the last two axes: x as a weight that the forward
// half transposes is read untransposed, so that the transposed copy need not be kept.
func (e *emitter) through(m matrixView) matrixView {
	def := e.j.g.Values[m.v].Def
	if def == graph.NoNode {
		return m
	}
	n := e.j.g.Nodes[def]
	if dims, ok := e.Dims(m.v); !ok || !swapsLastTwo(n, len(dims)) {
		return m
	}
	return matrixView{n.Inputs[0], !m.t}
}

// swapsLastTwo reports whether a node swaps the last two of rank axes and has no other effect.
// Without a permutation a Transpose reverses all axes.
func swapsLastTwo(n *graph.Node, rank int) bool {
	if !opInfo(n).Has(op.TransposeRole) || rank < 2 {
		return false
	}
	perm := n.IntList("perm", nil)
	return perm == nil && rank == 2 || slices.Equal(perm, lastTwo(rank))
}

// plain returns the matrices as a value, transposed by a node where that is asked for.
func (e *emitter) plain(m matrixView) Value {
	if !m.t {
		return m.v
	}
	return e.Transpose(m.v, lastTwo(len(e.Ranked(m.v, 2)))...)
}

// product returns alpha times the product of two matrices or stacks of matrices. Two matrices
// become a Gemm, which transposes on the way; stacks that are read transposed get a Transpose.
func (e *emitter) product(a, b matrixView, alpha float32) Value {
	a, b = e.through(a), e.through(b)
	da, _ := e.Dims(a.v)
	db, _ := e.Dims(b.v)
	if len(da) == 2 && len(db) == 2 && e.j.opset() >= 7 && (a.t || b.t || alpha != 1) {
		return e.gemm(a, b, alpha)
	}
	y := e.MatMul(e.plain(a), e.plain(b))
	if alpha != 1 {
		y = e.Mul(y, e.Scalar(float64(alpha), y))
	}
	return y
}

// gemm emits a Gemm. Before operator set 11 it must have a third input.
func (e *emitter) gemm(a, b matrixView, alpha float32) Value {
	var attrs Attrs
	if alpha != 1 {
		attrs = append(attrs, A("alpha", alpha))
	}
	if a.t {
		attrs = append(attrs, A("transA", int64(1)))
	}
	if b.t {
		attrs = append(attrs, A("transB", int64(1)))
	}
	in := []Value{a.v, b.v}
	if e.j.opset() < 11 {
		in = append(in, e.Scalar(0, a.v))
	}
	return e.Op("Gemm", attrs, in...)
}

// rowsOf flattens all dims before the last into one.
func (e *emitter) rowsOf(v Value) Value {
	dims := e.Ranked(v, 1)
	if len(dims) == 2 {
		return v
	}
	last := e.Dim(v, int64(len(dims)-1))
	return e.Reshape(v, e.joinInts(e.Vector(-1), last))
}

// joinInts joins int64 vectors; where all are constants, so is the result.
func (e *emitter) joinInts(parts ...Value) Value {
	var all []int64
	for _, p := range parts {
		ints, ok := e.intsOf(p)
		if !ok {
			return e.joinVectors(parts)
		}
		all = append(all, ints...)
	}
	return e.Vector(all...)
}

// joinVectors emits a Concat with neighbouring constants joined into one.
func (e *emitter) joinVectors(parts []Value) Value {
	var merged []Value
	var run []int64
	flush := func() {
		if len(run) > 0 {
			merged, run = append(merged, e.Vector(run...)), nil
		}
	}
	for _, p := range parts {
		if ints, ok := e.intsOf(p); ok {
			run = append(run, ints...)
			continue
		}
		flush()
		merged = append(merged, p)
	}
	flush()
	if len(merged) == 1 {
		return merged[0]
	}
	return e.Concat(0, merged...)
}

// inferredShape is a shape for Reshape with -1 for the one dim that is not a number.
func inferredShape(dims []symbolic.Expr) ([]int64, bool) {
	shape := make([]int64, len(dims))
	open := 0
	for i, d := range dims {
		n, ok := d.Const()
		switch {
		case !ok:
			n = -1
			open++
		case n < 1:
			return nil, false
		}
		shape[i] = n
	}
	return shape, open <= 1
}
