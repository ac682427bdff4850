package ort

import (
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Shape is a number for a shape, as ONNX Runtime knows it, together with an element size: values
// with the same number agree in both.
type Shape int32

// UnknownShape is the shape of scalars and of values whose shape ONNX Runtime does not know.
const UnknownShape Shape = -1

// numberShapes numbers the shapes of a graph's values. It also returns how many shapes there are. told says by value
// which shapes the runtime has from the file, where they may be formulas; nil stands for no value.
func numberShapes(g *graph.Graph, told []bool) ([]Shape, int) {
	shape := make([]Shape, len(g.Values))
	numbers := map[string]Shape{}
	lost := lostShapes(g)
	for i := range g.Values {
		shape[i] = UnknownShape
		t := &g.Values[i].Type
		if t.Form != graph.FormTensor || t.Shape.Rank() <= 0 || !t.Shape.Known() ||
			(told == nil || !told[i]) && (lost[i] || slices.ContainsFunc(t.Shape.Dims, isFormula)) {
			continue
		}
		var key strings.Builder
		key.WriteByte(byte(t.DType.Bits()))
		for _, d := range t.Shape.Dims {
			key.WriteString(d.String())
			key.WriteByte(',')
		}
		n, ok := numbers[key.String()]
		if !ok {
			n = Shape(len(numbers))
			numbers[key.String()] = n
		}
		shape[i] = n
	}
	return shape, len(numbers)
}

// isFormula reports whether a dim is neither a number nor one symbol. ONNX Runtime does not compute
// with symbols.
func isFormula(d symbolic.Expr) bool {
	if _, ok := d.Const(); ok {
		return false
	}
	symbols := d.Symbols()
	return len(symbols) != 1 || symbols[0] != d.String()
}

// lostShapes finds the values whose sizes ONNX Runtime does not know, measured with release 1.30,
// though this package has a number or a symbol for them: the length of a Range, the sums of a
// Concat, the shapes that nodes compute for Reshape; and the values computed from these, up to a
// node with a known shape.
func lostShapes(g *graph.Graph) []bool {
	lost := make([]bool, len(g.Values))
	for _, id := range graph.FileOrder(g) {
		n := g.Nodes[id]
		if !losesDims(g, n) &&
			!slices.ContainsFunc(dataInputs(n), func(v graph.ValueID) bool { return v != graph.NoValue && lost[v] }) {
			continue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue && !fixedShape(g, v) {
				lost[v] = true
			}
		}
	}
	return lost
}

// losesDims reports whether some of the dims that a node makes come from arithmetic.
func losesDims(g *graph.Graph, n *graph.Node) bool {
	f := table[n.Kind].losesDims
	return f != nil && f(g, n)
}

// computes is for operators that count.
func computes(*graph.Graph, *graph.Node) bool { return true }

// readsShape is for shapes that nodes compute.
func readsShape(g *graph.Graph, n *graph.Node) bool { return op.Contents(g, n.Input(1)) == nil }

// readsAxes is for axes that nodes compute.
func readsAxes(g *graph.Graph, n *graph.Node) bool {
	axes := n.Input(1)
	return axes != graph.NoValue && op.Contents(g, axes) == nil
}

// addsUp is for dims that are sums.
func addsUp(g *graph.Graph, n *graph.Node) bool {
	axis := n.Int("axis", 0)
	return slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool { return !fixedDim(g, v, axis) })
}

// fixedDim reports whether a dim is a number. A negative axis counts from the end.
func fixedDim(g *graph.Graph, v graph.ValueID, axis int64) bool {
	rank := int64(rankOf(g, v))
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return false
	}
	_, ok := g.Values[v].Type.Shape.Dims[axis].Const()
	return ok
}

// dataInputs lists the operands that determine a node's shapes.
func dataInputs(n *graph.Node) []graph.ValueID {
	switch table[n.Kind].told {
	case byFirst:
		return n.Inputs[:min(1, len(n.Inputs))]
	case byShape:
		return nil
	}
	return n.Inputs
}
