package optimize

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
)

// identities says of operators whether a node gives input 0 as it is, in every run and bit for bit.
// The output has the input's type where the rule is asked; other outputs are not used.
var identities = [op.NumKinds]func(s *site, n *graph.Node) bool{
	op.Identity:  always,
	op.Dropout:   dropsNothing,
	op.Cast:      always,
	op.Reshape:   always,
	op.Flatten:   always,
	op.Squeeze:   always,
	op.Unsqueeze: always,
	op.Expand:    always,
	op.Tile:      always, // copies are there only where the shape is another one
	op.Transpose: keepsAxes,
	op.Slice:     takesAll,
	op.Pad:       padsNothing,
	op.Concat:    oneInput,
	op.Sum:       oneInput,
	op.Max:       oneInput,
	op.Min:       oneInput,
	op.Mean:      oneInput,
	op.Split:     oneOutput,
	op.Mul:       neutral(1),
	op.Div:       neutral(1),
	op.Sub:       neutral(0),
}

// removeIdentities removes nodes that give their input.
func removeIdentities(s *site) error {
	s.Nodes(func(n *graph.Node) {
		rule := identities[n.Kind]
		if rule == nil || !known(n) || len(n.Inputs) == 0 || !s.onlyFirst(n) {
			return
		}
		in, out := n.Input(0), n.Output(0)
		if in == graph.NoValue || !s.sameType(in, out) || !rule(s, n) {
			return
		}
		if s.Replace(out, in) {
			if !s.Gone(n) {
				s.Remove(n)
			}
			s.did(n.Op)
		}
	})
	return nil
}

// onlyFirst reports whether no output of a node but the first one is used.
func (s *site) onlyFirst(n *graph.Node) bool {
	for _, v := range n.Outputs[1:] {
		if s.Used(v) {
			return false
		}
	}
	return n.Output(0) != graph.NoValue
}

func always(*site, *graph.Node) bool { return true }

// dropsNothing: it is not in training mode, or the share that it drops is 0.
func dropsNothing(s *site, n *graph.Node) bool {
	if !draws(s.run.m, n) {
		return true
	}
	ratio := float64(n.Float("ratio", 0.5))
	if v := n.Input(1); v != graph.NoValue {
		x, ok := pattern.Number(s.G, v)
		return ok && x == 0
	}
	return ratio == 0
}

// keepsAxes: the permutation moves only axes of one element.
func keepsAxes(s *site, n *graph.Node) bool {
	shape := s.typeOf(n.Input(0)).Shape
	last := -1
	for _, axis := range permOf(n, len(shape.Dims)) {
		if size, ok := shape.Dims[axis].Const(); ok && size == 1 {
			continue
		}
		if axis < last {
			return false
		}
		last = axis
	}
	return true
}

// permOf is the permutation of a Transpose of some rank.
func permOf(n *graph.Node, rank int) []int {
	perm := make([]int, rank)
	list := n.IntList("perm", nil)
	for i := range perm {
		if perm[i] = rank - 1 - i; len(list) == rank {
			perm[i] = int(list[i])
		}
	}
	return perm
}

// takesAll: a slice of its input's shape has all elements, in their order if no step goes back.
func takesAll(s *site, n *graph.Node) bool {
	steps, _, ok := s.argument(n, "steps", 4)
	return ok && !slices.ContainsFunc(steps, func(step int64) bool { return step < 1 })
}

// padsNothing: all pads are 0.
func padsNothing(s *site, n *graph.Node) bool {
	pads, given, ok := s.argument(n, "pads", 1)
	return given && ok && zeros(pads)
}

func oneInput(_ *site, n *graph.Node) bool { return len(n.Inputs) == 1 }

// oneOutput: the one part has the whole's shape.
func oneOutput(_ *site, n *graph.Node) bool { return len(n.Outputs) == 1 }

// neutral is for operators whose input 1 has no effect if it is a positive zero, or a one.
func neutral(want float64) func(*site, *graph.Node) bool {
	return func(s *site, n *graph.Node) bool {
		v := n.Input(1)
		if v == graph.NoValue {
			return false
		}
		x, ok := pattern.Number(s.G, v)
		return ok && x == want && 1/x > 0
	}
}
