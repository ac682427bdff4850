package chunk

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Floor is a lower bound on the peak of a graph over all recomputations and all chunked regions: the
// larger of the bytes of the graph's outputs together and the need of the smallest part of each step
// that its operator's factors, and in mode Exact their grains, allow. Indivisible nodes need all of
// their operands. Inputs and weights do not count.
func Floor(m *graph.Model, order graph.Order, dims symbolic.Env, mode Mode) (int64, error) {
	bound, err := Bind(m, dims)
	if err != nil {
		return 0, err
	}
	bytes, err := memory(bound)
	if err != nil {
		return 0, err
	}
	f := newFinder(bound, order, mode)
	most, err := outputBytes(bound, bytes)
	if err != nil {
		return 0, err
	}
	for _, id := range order {
		most = max(most, f.smallest(bound.Graph.Nodes[id], bytes))
	}
	return most, nil
}

// outputBytes is the bytes of a graph's outputs after a run, without those in the memory of states.
// Views of one value count once.
func outputBytes(m *graph.Model, bytes []int64) (total int64, err error) {
	states, err := live.FindStates(m)
	if err != nil {
		return 0, err
	}
	g := m.Graph
	seen := make([]bool, len(bytes))
	for _, st := range states {
		seen[st.Out] = true
	}
	for _, d := range g.Outputs {
		v := d.Value
		for !seen[v] && g.Values[v].Def != graph.NoNode && op.Of(g.Nodes[g.Values[v].Def].Kind).View {
			v = g.Nodes[g.Values[v].Def].Input(0)
		}
		if !seen[v] {
			seen[v] = true
			total += bytes[v]
		}
	}
	return total, nil
}

// memory is the bytes of values that an arena holds, by value: 0 for inputs and weights.
func memory(m *graph.Model) ([]int64, error) {
	sizes, err := live.EvalSizes(m.Graph, nil)
	if err != nil {
		return nil, err
	}
	for v := range sizes.Bytes {
		if live.Persistent(m.Graph, graph.ValueID(v)) {
			sizes.Bytes[v] = 0
		}
	}
	return sizes.Bytes, nil
}

// smallest is the bytes that the smallest part of a node needs.
func (f *finder) smallest(n *graph.Node, bytes []int64) int64 {
	info := op.Of(n.Kind)
	if info.View || info.Cuts != nil || info.Joins != nil || info.Has(op.ShapeOf) {
		return 0 // views, parts written in place, numbers
	}
	var factors []op.Factor
	if !f.whole[n.ID] {
		factors = f.factorsOf(n.ID)
	}
	total := int64(0)
	seen := map[graph.ValueID]bool{graph.NoValue: true}
	add := func(v graph.ValueID, o operand) {
		if seen[v] {
			return
		}
		seen[v] = true
		total += bytes[v] / f.partsOf(factors, o)
	}
	for slot, v := range n.Inputs {
		add(v, operand{slot: slot})
	}
	for slot, v := range n.Outputs {
		if slot > 0 || !writesOver(n, bytes) {
			add(v, operand{slot, true})
		}
	}
	return total
}

// partsOf is the number of parts of an operand if all of its factors are cut.
func (f *finder) partsOf(factors []op.Factor, o operand) int64 {
	parts := int64(1)
	for i := range factors {
		if o.of(&factors[i]).Cut() {
			parts *= factors[i].Size
		}
	}
	return parts
}
