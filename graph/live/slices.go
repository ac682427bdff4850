package live

import (
	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// PartAlignment is the alignment of a part in its buffer, in bytes, so that kernels find it aligned
// like any other operand.
const PartAlignment = 64

// Slices says which operands of a node are runs of consecutive bytes of another one: outputs of
// input 0, where Join is false, or inputs of output 0. Such an output can be a view, and such an
// input can be written where it belongs when it is made.
type Slices struct {
	Join bool
	// At is the first byte of each of these outputs, or inputs; -1 for those that are no parts, are
	// smaller than PartAlignment, or do not begin at a multiple of it.
	At []int64
}

// evalSlices finds the parts of all nodes.
func (s *Sizes) evalSlices(g *graph.Graph, env symbolic.Env) {
	dims := func(v graph.ValueID) []int64 { return evalDims(g.Values[v].Type, env) }
	for i, n := range g.Nodes {
		info := op.Of(n.Kind)
		rule, whole, list := info.Cuts, n.Input(0), n.Outputs
		if info.Joins != nil {
			rule, whole, list = info.Joins, n.Output(0), n.Inputs
		}
		if rule == nil || whole == graph.NoValue || s.Bytes[whole] <= 0 {
			continue
		}
		width := int64(g.Values[whole].Type.DType.Bits())
		at := rule(&op.Pieces{Graph: g, Node: n, Dims: dims})
		if width%8 != 0 || !s.alignSlices(list, at, width/8) {
			continue
		}
		if s.Slices == nil {
			s.Slices = make([]*Slices, len(g.Nodes))
		}
		s.Slices[i] = &Slices{Join: info.Joins != nil, At: at}
	}
}

// alignSlices turns places of elements into places of bytes, without those that are not aligned and
// those of parts that are smaller than the alignment, such as pieces of shapes: they are not worth a
// look. It reports whether any are left.
func (s *Sizes) alignSlices(list []graph.ValueID, at []int64, width int64) (any bool) {
	for i, v := range list[:len(at)] {
		at[i] *= width
		if at[i] < 0 || at[i]%PartAlignment != 0 || v == graph.NoValue || s.Bytes[v] < PartAlignment {
			at[i] = -1
			continue
		}
		any = true
	}
	return any
}

// evalDims returns the dims of a tensor, nil where one is not known.
func evalDims(t graph.Type, env symbolic.Env) []int64 {
	if t.Form != graph.FormTensor || !t.Shape.Ranked {
		return nil
	}
	dims := make([]int64, len(t.Shape.Dims))
	for i, d := range t.Shape.Dims {
		n, err := d.Eval(env)
		if err != nil {
			return nil
		}
		dims[i] = n
	}
	return dims
}
