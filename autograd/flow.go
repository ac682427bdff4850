package autograd

import (
	"slices"

	"memopt/graph"
)

// carriesFloat reports whether a gradient can flow through a value of a type: a tensor of floats of 16
// bits or more, a sequence or an optional of such, or of unknown type. Narrower floats are quantized
// numbers (quantized.go).
func carriesFloat(t graph.Type) bool {
	switch {
	case t.Form == graph.FormSequence || t.Form == graph.FormOptional:
		return t.Elem == nil || carriesFloat(*t.Elem)
	case t.DType == graph.Undefined:
		return true
	}
	return !isCode(t.DType) && t.DType.IsFloat()
}

// markReaches marks the values that a loss depends on.
func (j *joint) markReaches(order graph.Order, losses []lossValue) {
	j.markQuantized(order)
	j.reaches = j.reachedBy(order, losses, j.differentiable, func(*graph.Node, Value) bool { return true })
}

// markTrained marks the values that a loss depends on through inputs that are no settings.
func (j *joint) markTrained(order graph.Order, losses []lossValue) {
	j.weighs = j.reachedBy(order, losses, j.trainable, func(n *graph.Node, v Value) bool {
		trains := false
		n.Subgraphs(func(_ string, sub *graph.Graph) { trains = trains || trainsIn(sub, v) })
		return trains
	})
}

// trainsIn reports whether a subgraph has a reader of a captured value that is not a setting of the
// reader.
func trainsIn(g *graph.Graph, captured Value) bool {
	for i := range g.Values {
		v := Value(i)
		if g.Values[v].Outer != captured {
			continue
		}
		for _, n := range g.Nodes {
			for slot, x := range n.Inputs {
				if o := Of(n.Kind).Operand(slot); x == v && !o.Setting && o.None == "" {
					return true
				}
			}
			found := false
			n.Subgraphs(func(_ string, sub *graph.Graph) { found = found || trainsIn(sub, v) })
			if found {
				return true
			}
		}
		if g.Values[v].Output {
			return true
		}
	}
	return false
}

// reachedBy marks the values that a loss depends on through inputs of nodes that flows admits, and
// captured values that captures admits.
func (j *joint) reachedBy(
	order graph.Order, losses []lossValue, flows func(*graph.Node, int) bool, captures func(*graph.Node, Value) bool,
) []bool {
	reached := make([]bool, len(j.g.Values))
	for _, l := range losses {
		reached[l.value] = true
	}
	for _, id := range slices.Backward(order) {
		n := j.g.Nodes[id]
		if !slices.ContainsFunc(n.Outputs, func(v Value) bool { return v != None && reached[v] }) {
			continue
		}
		for slot, v := range n.Inputs {
			if flows(n, slot) {
				reached[v] = true
			}
		}
		for _, v := range n.Captures() {
			if j.carries(v) && captures(n, v) {
				reached[v] = true
			}
		}
	}
	return reached
}

// markRequires marks the values on the way of the wanted gradients.
func (j *joint) markRequires(order graph.Order, wrt []Value) {
	j.requires = make([]bool, len(j.g.Values))
	for _, v := range wrt {
		j.requires[v] = true
	}
	for _, id := range order {
		n := j.g.Nodes[id]
		flows := false
		for slot, v := range n.Inputs {
			flows = flows || j.differentiable(n, slot) && j.requires[v]
		}
		for _, v := range n.Captures() {
			flows = flows || j.requires[v]
		}
		if !flows {
			continue
		}
		for _, v := range n.Outputs {
			if v != None && j.carries(v) && j.reaches[v] {
				j.requires[v] = true
			}
		}
	}
}

// countReaders notes how often forward nodes read each value, subgraphs among them.
func (j *joint) countReaders(order graph.Order) { j.readers = j.readersOf(order) }

// readersOf counts how often the nodes of an order read each value.
func (j *joint) readersOf(order graph.Order) []int32 {
	readers := make([]int32, len(j.g.Values))
	for _, id := range order {
		for _, list := range [][]Value{j.g.Nodes[id].Inputs, j.g.Nodes[id].Captures()} {
			for _, v := range list {
				if v != None {
					readers[v]++
				}
			}
		}
	}
	return readers
}
