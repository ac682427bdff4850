package ort

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// Uses has the number of readers and the producer of each value, for a list of nodes that need not
// be in a graph yet: the data of ONNX Runtime's rewrite rules.
type Uses struct {
	g     *graph.Graph
	count []int32       // by value: readers among nodes, their subgraphs and the graph outputs
	def   []*graph.Node // by value
}

// NewUses indexes nodes whose values are those of a graph.
func NewUses(g *graph.Graph, nodes []*graph.Node) *Uses {
	u := &Uses{g, make([]int32, len(g.Values)), make([]*graph.Node, len(g.Values))}
	for _, n := range nodes {
		for _, list := range [][]graph.ValueID{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != graph.NoValue {
					u.count[v]++
				}
			}
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				u.def[v] = n
			}
		}
	}
	for _, d := range g.Outputs {
		u.count[d.Value]++
	}
	return u
}

func (u *Uses) of(v graph.ValueID) int32 {
	if v == graph.NoValue {
		return 0
	}
	return u.count[v]
}

// maker returns the node that makes a value if it has an operator, else nil.
func (u *Uses) maker(v graph.ValueID, kind graph.Kind) *graph.Node {
	if v == graph.NoValue || u.def[v] == nil || u.def[v].Kind != kind {
		return nil
	}
	return u.def[v]
}

// Constant reports whether the contents of a value are in the file and no input can change them.
func (u *Uses) Constant(v graph.ValueID) bool {
	value := &u.g.Values[v]
	if value.IsConstant() {
		return true
	}
	return value.Def != graph.NoNode && int(value.Def) < len(u.g.Nodes) && op.IsConstant(u.g, value.Def)
}

// made reports whether a node makes a value, once Constant nodes have become initializers and
// copies have been taken out.
func (u *Uses) made(v graph.ValueID) bool {
	for n := u.maker(v, op.Identity); n != nil && n.Input(0) != graph.NoValue; n = u.maker(v, op.Identity) {
		v = n.Inputs[0]
	}
	return v != graph.NoValue && u.def[v] != nil && !op.Of(u.def[v].Kind).Has(op.ConstantRole)
}

// Loses reports whether stock ONNX Runtime, from the basic level of optimization on, replaces a
// Dropout by its data although it may drop something.
func (u *Uses) Loses(n *graph.Node) bool {
	return n.Kind == op.Dropout && u.eliminates(n) && !dropsNothing(u.g, n)
}

// eliminates reports whether it replaces a Dropout by its data at all (EliminateDropout in
// dropout_elimination.cc): if its mask has no readers, its result is not a graph output, and one
// input is made by a node.
func (u *Uses) eliminates(n *graph.Node) bool {
	made := 0
	for _, v := range n.Inputs {
		if u.made(v) {
			made++
		}
	}
	return u.of(n.Output(1)) == 0 && n.Output(0) != graph.NoValue && !u.g.Values[n.Output(0)].Output && made == 1
}

// dropsNothing reports whether a Dropout is known to return its data unchanged: before operator set
// 12 it is defined for inference only.
func dropsNothing(g *graph.Graph, n *graph.Node) bool {
	return n.Input(2) == graph.NoValue || isZero(g, n.Input(2)) || n.Input(1) != graph.NoValue && isZero(g, n.Input(1))
}

// isZero reports whether the file says that all bytes of a value are zero.
func isZero(g *graph.Graph, v graph.ValueID) bool {
	t := op.Contents(g, v)
	if t == nil || t.Source == nil {
		return false
	}
	raw, err := t.Source.Bytes()
	return err == nil && !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 })
}

// isOne reports whether the file says that a value is one number that is, or may be, one.
func isOne(g *graph.Graph, v graph.ValueID) bool {
	t := op.Contents(g, v)
	if t == nil || t.Source == nil {
		return false
	}
	raw, err := t.Source.Bytes()
	if err != nil {
		return true
	}
	one := map[graph.DType]string{
		graph.Float32: "\x00\x00\x80\x3f", graph.Float64: "\x00\x00\x00\x00\x00\x00\xf0\x3f",
		graph.Int32: "\x01\x00\x00\x00", graph.Int64: "\x01\x00\x00\x00\x00\x00\x00\x00",
	}[t.DType]
	return one == "" || string(raw) == one
}

// Eliminated marks the Dropout nodes, by node, that stock ONNX Runtime replaces by their data from
// the basic level of optimization on.
func Eliminated(g *graph.Graph) []bool {
	out, found := make([]bool, len(g.Nodes)), NewUses(g, g.Nodes)
	for i, n := range g.Nodes {
		out[i] = n.Kind == op.Dropout && found.eliminates(n)
	}
	return out
}

// LostDropouts lists those among them that may drop something: with them the runtime's numbers are
// those without dropout.
func LostDropouts(g *graph.Graph) []graph.NodeID {
	var out []graph.NodeID
	found := NewUses(g, g.Nodes)
	for i, n := range g.Nodes {
		if found.Loses(n) {
			out = append(out, graph.NodeID(i))
		}
	}
	return out
}

// Halves marks, by value, the h of patterns h * (1 + tanh(...)) that other nodes read, too, while h
// is a product with a constant and the rest of the pattern has one reader each: ONNX Runtime turns
// such a pattern into one FastGelu, and h vanishes (FastGeluFusion in fast_gelu_fusion.cc).
func (u *Uses) Halves(nodes []*graph.Node) []bool {
	out := make([]bool, len(u.g.Values))
	for _, n := range nodes {
		if n.Kind != op.Mul {
			continue
		}
		for slot, h := range n.Inputs {
			other := n.Inputs[1-slot]
			sum, half := u.maker(other, op.Add), u.maker(h, op.Mul)
			if sum == nil || half == nil || u.of(h) < 2 || u.of(other) != 1 ||
				!slices.ContainsFunc(half.Inputs, u.Constant) {
				continue
			}
			out[h] = slices.ContainsFunc(sum.Inputs, func(v graph.ValueID) bool {
				return u.maker(v, op.Tanh) != nil && u.of(v) == 1
			})
		}
	}
	return out
}
