package ort

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// nodeFacts holds the properties of a graph's node that the optimizations ask for.
type nodeFacts struct {
	copies bool  // it is taken out: Identity, and a Dropout whose mask has no readers
	class  int32 // nodes of one class have the same operator and attributes; 0: never merged
	swaps  bool  // a Transpose of the last two dims
	matrix bool  // a product that can take a factor and transposed operands: MatMul
	scaled int8  // a product with a constant scalar: one more than the index of the other operand
	dense  bool  // a MatMul of matrices, or of shapes that the file fixes, so that an Add of a row becomes part of it
	chains bool  // a Reshape that becomes one with the views of fixed shapes behind it
	joins  bool  // such a view: Reshape, Squeeze, Unsqueeze
	shape  bool  // its result is known from the shapes that the file fixes: Shape
	row    int8  // an Add: one more than the index of the operand that is a row of fixed length
}

// describeAll describes the nodes of a graph.
func describeAll(g *graph.Graph) []nodeFacts {
	out := make([]nodeFacts, len(g.Nodes))
	classes := map[classKey]int32{}
	eliminated := Eliminated(g)
	for i, n := range g.Nodes {
		out[i] = describe(g, n, eliminated[i], classes)
	}
	return out
}

// describe describes a node. eliminated says that ONNX Runtime replaces it by its data; classes
// numbers the combinations of operator and attributes met so far.
func describe(g *graph.Graph, n *graph.Node, eliminated bool, classes map[classKey]int32) nodeFacts {
	row, info := &table[n.Kind], op.Of(n.Kind)
	f := nodeFacts{copies: row.copies || eliminated}
	if !info.Random && len(info.Mutates) == 0 && !n.HasSubgraphs() && n.Kind != op.Unknown {
		key := classOf(n)
		if classes[key] == 0 {
			classes[key] = int32(len(classes)) + 1
		}
		f.class = classes[key]
	}
	if row.describe != nil {
		row.describe(g, n, &f)
	}
	return f
}

func describeShape(g *graph.Graph, n *graph.Node, f *nodeFacts) {
	f.shape = fixedShape(g, n.Input(0))
}

func describeTranspose(g *graph.Graph, n *graph.Node, f *nodeFacts) {
	f.swaps = swapsLast(n.IntList("perm", nil), rankOf(g, n.Input(0)))
}

func describeMatMul(g *graph.Graph, n *graph.Node, f *nodeFacts) {
	a, b := n.Input(0), n.Input(1)
	f.matrix = true
	f.dense = rankOf(g, b) == 2 && (rankOf(g, a) == 2 || fixedShape(g, a) && fixedShape(g, b))
}

// describeReshape notes that a chain of views may begin here, or go on (FuseContiguousReshapes in
// reshape_fusion.cc, which takes Reshape from operator set 5 on and passes over nodes of allowzero).
func describeReshape(g *graph.Graph, n *graph.Node, f *nodeFacts) {
	f.chains = len(n.Inputs) == 2 && n.Int("allowzero", 0) == 0
	f.joins = f.chains && fixedShape(g, n.Output(0))
}

// describeView is for Squeeze and Unsqueeze, whose shapes the runtime does not know if a node
// computes the axes.
func describeView(g *graph.Graph, n *graph.Node, f *nodeFacts) {
	f.joins = fixedShape(g, n.Output(0)) && !readsAxes(g, n)
}

func describeMul(g *graph.Graph, n *graph.Node, f *nodeFacts) {
	describeDiv(g, n, f)
	if f.scaled == 0 && constantScalar(g, n.Input(0)) {
		f.scaled = 2
	}
}

func describeDiv(g *graph.Graph, n *graph.Node, f *nodeFacts) {
	if constantScalar(g, n.Input(1)) {
		f.scaled = 1
	}
}

func describeAdd(g *graph.Graph, n *graph.Node, f *nodeFacts) {
	for slot := range 2 {
		if rankOf(g, n.Input(slot)) == 1 && fixedShape(g, n.Input(slot)) {
			f.row = int8(slot) + 1
		}
	}
}

func rankOf(g *graph.Graph, v graph.ValueID) int {
	if v == graph.NoValue || !g.Values[v].Type.Shape.Known() {
		return -1
	}
	return g.Values[v].Type.Shape.Rank()
}

func fixedShape(g *graph.Graph, v graph.ValueID) bool {
	if rankOf(g, v) < 0 {
		return false
	}
	for _, d := range g.Values[v].Type.Shape.Dims {
		if _, ok := d.Const(); !ok {
			return false
		}
	}
	return true
}

func swapsLast(perm []int64, rank int) bool {
	if perm == nil {
		return rank == 2
	}
	n := len(perm)
	if n < 2 || perm[n-2] != int64(n)-1 || perm[n-1] != int64(n)-2 {
		return false
	}
	for i := range n - 2 {
		if perm[i] != int64(i) {
			return false
		}
	}
	return true
}

// mostShared is the most elements of constants that ONNX Runtime compares with each other
// (ConstantSharing::TENSOR_ELEM_COUNT_THRESHOLD in optimizer/constant_sharing.h).
const mostShared = 8

// sharedConstants returns, for every value, the first of the constants equal to it, or the value
// itself.
func sharedConstants(g *graph.Graph) []graph.ValueID {
	out := make([]graph.ValueID, len(g.Values))
	first := map[string]graph.ValueID{}
	for i := range g.Values {
		v := graph.ValueID(i)
		out[i] = v
		t := op.Contents(g, v)
		if t == nil || t.Source == nil {
			continue
		}
		if n, err := t.Elements(); err != nil || n > mostShared {
			continue
		}
		raw, err := t.Source.Bytes()
		if err != nil {
			continue // whoever needs the contents says so
		}
		key := fmt.Sprintf("%d %v %x", t.DType, t.Dims, raw)
		if w, ok := first[key]; ok {
			out[i] = w
		} else {
			first[key] = v
		}
	}
	return out
}

// constantScalar reports whether a value is one number in the file.
func constantScalar(g *graph.Graph, v graph.ValueID) bool {
	if v == graph.NoValue || !fixedShape(g, v) {
		return false
	}
	for _, d := range g.Values[v].Type.Shape.Dims {
		if n, _ := d.Const(); n != 1 {
			return false
		}
	}
	return op.Contents(g, v) != nil
}
