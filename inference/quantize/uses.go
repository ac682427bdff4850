package quantize

import (
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/inference/edit"
)

// role says how an operator reads a weight.
type role struct {
	slot int // the input that is the weight
	// transposes reports whether a node reads the weight with its two axes swapped.
	transposes func(n *graph.Node) bool
	// write writes the quantized form of a node.
	write func(q *quantizer, u use, w *weight) error
	rows  bool // it takes elements along an axis, without a product
}

// roles has the operators whose weights are quantized.
var roles = [op.NumKinds]*role{
	op.MatMul: {slot: 1, transposes: func(*graph.Node) bool { return false }, write: writeMatMul},
	op.Gemm: {slot: 1, write: writeGemm,
		transposes: func(n *graph.Node) bool { return n.Int("transB", 0) != 0 }},
	op.Gather: {slot: 0, transposes: func(*graph.Node) bool { return false }, write: writeGather, rows: true},
}

// use is a place that reads a weight.
type use struct {
	node       *graph.Node
	role       *role       // nil for a place that needs floats
	via        *graph.Node // a transpose between weight and node, or nil
	transposed bool        // the node reads it with its two axes swapped
}

// usesOf lists the places that read a constant of floats. The list is empty if no place can be
// quantized.
func (q *quantizer) usesOf(v graph.ValueID) []use {
	val := &q.G.Values[v]
	if !val.IsConstant() || val.Data == nil || !val.Data.DType.IsFloat() {
		return nil
	}
	var uses []use
	for _, n := range q.Readers(v) {
		if op.Of(n.Kind).Has(op.TransposeRole) && len(val.Data.Dims) == 2 && !q.Held(n.Output(0)) &&
			slices.Equal(n.IntList("perm", []int64{1, 0}), []int64{1, 0}) {
			for _, reader := range q.Readers(n.Output(0)) {
				uses = append(uses, q.use(reader, n.Output(0), n))
			}
			continue
		}
		uses = append(uses, q.use(n, v, nil))
	}
	if !slices.ContainsFunc(uses, func(u use) bool { return u.role != nil }) {
		return nil
	}
	return uses
}

// use is how a node reads a value that is a weight, or one behind a transpose.
func (q *quantizer) use(n *graph.Node, v graph.ValueID, via *graph.Node) use {
	u := use{node: n, via: via}
	r := roles[n.Kind]
	if r == nil || n.Fault() != nil || n.Clash() != nil || n.Input(r.slot) != v ||
		count(n.Inputs, v) != 1 || r.rows && via != nil {
		return u
	}
	u.role, u.transposed = r, r.transposes(n) != (via != nil)
	return u
}

func count(list []graph.ValueID, v graph.ValueID) int {
	n := 0
	for _, x := range list {
		if x == v {
			n++
		}
	}
	return n
}

// refusal returns the reason why a weight stays as it is, "" if it can be quantized.
func (q *quantizer) refusal(v graph.ValueID, uses []use) string {
	t := q.G.Values[v].Data
	elements, err := t.Elements()
	switch {
	case t.DType != graph.Float32:
		return fmt.Sprintf("the weight is %v, and DynamicQuantizeLinear takes float alone", t.DType)
	case err != nil || elements == 0:
		return "the weight has no elements"
	case q.Held(v):
		return "the weight is an output of the graph, or a subgraph reads it"
	}
	for _, u := range uses {
		label := q.G.NodeLabel(u.node.ID)
		switch {
		case u.role == nil:
			return fmt.Sprintf("node %q (%s) reads its weight in floats, and the file would have it twice", label,
				u.node.Op)
		case q.excluded(u, v):
			return fmt.Sprintf("node %q reads the same weight and is excluded", label)
		case q.typeOf(u.node.Output(0)).DType != graph.Float32:
			return fmt.Sprintf("the output of node %q (%s) is not known to be float", label, u.node.Op)
		case u.role.rows:
			continue
		case len(t.Dims) != 2:
			return fmt.Sprintf("the weight has rank %d, wanted 2", len(t.Dims))
		}
		if k := t.Dims[q.summed(u)]; k > q.longest() {
			return fmt.Sprintf("sums of %d products of 8 bits may leave 32 bits; %d is the most", k, q.longest())
		}
	}
	return q.faulty(t)
}

// faulty describes the fault of a weight's elements, or returns "".
func (q *quantizer) faulty(t *graph.TensorData) string {
	elems, err := edit.Floats(t)
	if err != nil {
		return fmt.Sprintf("its weight cannot be read: %v", err)
	}
	if slices.ContainsFunc(elems, func(x float32) bool { return x-x != 0 }) {
		return "the weight has elements that are not finite"
	}
	return ""
}

// summed is the axis of the weight that a product sums over.
func (q *quantizer) summed(u use) int {
	if u.transposed {
		return 1
	}
	return 0
}

// longest is the most products of 8 bits whose sum is below 2^31 in any case: inputs less their zero
// point are within ±255, weights within ±127, or ±255 where they have a zero point.
func (q *quantizer) longest() int64 {
	if q.o.Signed {
		return math.MaxInt32 / (255 * 127)
	}
	return math.MaxInt32 / (255 * 255)
}

// excluded reports whether a glob names a node, its operator or its weight.
func (q *quantizer) excluded(u use, v graph.ValueID) bool {
	return slices.ContainsFunc(q.o.Exclude, func(glob string) bool {
		return graph.MatchGlob(glob, q.G.NodeLabel(u.node.ID)) || graph.MatchGlob(glob, u.node.Op) ||
			graph.MatchGlob(glob, q.G.ValueName(v))
	})
}

// typeOf is the type of a value.
func (q *quantizer) typeOf(v graph.ValueID) graph.Type {
	if v == graph.NoValue {
		return graph.Type{}
	}
	return q.G.Values[v].Type
}
