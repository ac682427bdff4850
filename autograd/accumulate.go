package autograd

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
)

// Names of the values that accumulation adds to a graph. The next value of input x is output x +
// NewSuffix.
const (
	// SumSuffix ends the names of sums of gradients (w_grad_sum of w, for example): state of the
	// parameter's type, in float if that is of 16 bits.
	SumSuffix = "_grad_sum"
	// CountInput counts the gradients in the sums: state, an int64 scalar. For weighted gradients it is the sum of
	// the weights, a double.
	CountInput = "grad_count"
)

// beginSums makes the inputs that the gradients are added to. A parameter's gradient begins as the
// sum so far, not as zero, so that each product of the sweep is added to it as soon as it is there,
// in place, and gathers scatter onto it: no gradient waits for another.
func (j *joint) beginSums(wrt []Value) error {
	j.sums = make(map[Value]Value, len(wrt))
	for _, v := range wrt {
		t := j.g.Values[v].Type
		t.DType = updateType(t.DType)
		sum, err := j.newState(j.g.ValueName(v)+SumSuffix, t)
		if err != nil {
			return err
		}
		j.sums[v] = sum
		j.grow()
		j.grads[v] = sum
	}
	return nil
}

// finishSums makes the next sums, and their count, outputs, and records which inputs they follow.
// Parameters become inputs, with their initializers as defaults: they change between micro-batches.
func (j *joint) finishSums(wrt []Value) error {
	j.node, j.prefix = nil, "/grad/"
	var pairs []live.StatePair
	next := func(input string, v Value) error {
		pairs = append(pairs, live.StatePair{Input: input, Output: input + NewSuffix})
		return j.addOutput(input+NewSuffix, v, "the next value of "+input)
	}
	for _, v := range wrt {
		name, g := j.g.ValueName(v), j.gradOf(v)
		if g == j.sums[v] {
			j.out.Unreached = append(j.out.Unreached, name)
		}
		j.out.Wrt = append(j.out.Wrt, name)
		if err := next(name+SumSuffix, g); err != nil {
			return err
		}
		if val := &j.g.Values[v]; !val.Input {
			if err := j.g.AddInput(graph.Decl{Value: v, Type: val.Type}); err != nil {
				return err
			}
		}
	}
	count, err := j.newState(CountInput, countType(j.out))
	if err != nil {
		return err
	}
	if err := next(CountInput, j.nextCount(count)); err != nil {
		return err
	}
	j.out.Accumulates = true
	known, err := live.Pairs(j.m)
	live.RecordStates(j.m, append(known, pairs...))
	return err
}

// countType is the type of CountInput in a graph.
func countType(j *Joint) graph.Type {
	d := graph.Int64
	if j.Weights.Weighing == Weighted {
		d = graph.Float64
	}
	return graph.Tensor(d, graph.Dims())
}

// nextCount counts the gradients of a batch.
func (j *joint) nextCount(count Value) Value {
	e := &emitter{j}
	if j.out.Weights.Weighing == Weighted {
		return e.Add(count, e.Cast(j.weight, graph.Float64))
	}
	return e.Add(count, e.Int(1))
}

// newState adds a graph input for a state, which steps hand on.
func (j *joint) newState(name string, t graph.Type) (Value, error) {
	if !j.taken.TakeValue(name) {
		return None, fmt.Errorf("the graph has a value %q already, the name of an input of the training step", name)
	}
	v := j.g.Value(name)
	return v, j.g.AddInput(graph.Decl{Value: v, Type: t})
}

// addOutput makes a value a graph output under a name of its own. Errors name its purpose.
func (j *joint) addOutput(name string, v Value, purpose string) error {
	if !j.taken.TakeValue(name) {
		return fmt.Errorf("the graph has a value %q already, the name for %s", name, purpose)
	}
	out := j.g.Value(name)
	n := &graph.Node{Name: j.nodeName("Identity"), Op: "Identity", Inputs: []Value{v}, Outputs: []Value{out}}
	if err := j.g.AddNode(n); err != nil {
		return err
	}
	j.annotate(n)
	if err := j.types.Node(n); err != nil {
		return err
	}
	if err := j.g.AddOutput(graph.Decl{Value: out, Type: j.g.Values[v].Type}); err != nil {
		return err
	}
	j.grow()
	return nil
}

// updateType is the type of the computation of sums of gradients, and of updates: float for types
// of 16 bits.
func updateType(d graph.DType) graph.DType {
	if d == graph.Float16 || d == graph.BFloat16 {
		return graph.Float32
	}
	return d
}
