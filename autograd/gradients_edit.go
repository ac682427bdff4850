package autograd

import (
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// errNotRead means that an edit of gradients was asked of a graph without gradients.
var errNotRead = errors.New("the training graph is not one of FromGradients; Differentiate has options for that " +
	"(Accumulate, NoGrad)")

// UnmatchedError means that a glob of parameters without gradients matches no parameter.
type UnmatchedError struct {
	Glob       string
	Parameters string // some of their names
}

func (e *UnmatchedError) Error() string {
	return fmt.Sprintf("no-grad %q matches no parameter; they are %s", e.Glob, e.Parameters)
}

// Freeze leaves the parameters that globs match out of a Joint that FromGradients has made: their
// gradients are no outputs, and the nodes that only these need are dropped, so that no value is
// stashed for them. A glob without a match is an error.
func Freeze(j *Joint, globs []string) error {
	if !j.plain || j.Accumulates {
		return errNotRead
	}
	for _, glob := range globs {
		if !slices.ContainsFunc(j.Wrt, func(name string) bool { return graph.MatchGlob(glob, name) }) {
			var all []Value
			for _, name := range j.Wrt {
				all = append(all, j.Model.Graph.Value(name))
			}
			return &UnmatchedError{glob, (&joint{g: j.Model.Graph}).names(all)}
		}
	}
	g, kept, frozen := j.Model.Graph, []string(nil), map[Value]bool{}
	var gradients []lossValue
	for _, name := range j.Wrt {
		v, _ := g.Lookup(name + GradSuffix)
		if matchAny(globs, name) {
			frozen[v] = true
			continue
		}
		kept, gradients = append(kept, name), append(gradients, lossValue{value: v})
	}
	if len(kept) == 0 {
		return fmt.Errorf("no-grad %q matches all parameters: no parameter is left to train", globs)
	}
	g.Outputs = slices.DeleteFunc(g.Outputs, func(d graph.Decl) bool {
		if frozen[d.Value] {
			g.Values[d.Value].Output = false
		}
		return frozen[d.Value]
	})
	b, err := live.FindBoundary(j.Model)
	if err != nil {
		return err
	}
	at := g.Nodes[b.Node]
	nodes := (&joint{g: g}).live(g.Nodes, gradients)
	first := slices.IndexFunc(nodes, func(n *graph.Node) bool { return n.ID >= j.Backward })
	g.SetNodes(nodes)
	j.Wrt, j.Backward, b.Node = kept, graph.NodeID(first), at.ID
	(&gradientReader{j, g}).record(b)
	return j.settle()
}

// AccumulateGradients makes a micro-step of a Joint that FromGradients has made, as
// Options.Accumulate does of a forward model: each gradient is added to the input NAME_grad_sum as
// soon as it is there, and UpdateStep makes the step that applies the sums.
func AccumulateGradients(j *Joint) (err error) {
	if !j.plain || j.Accumulates {
		return errNotRead
	}
	defer func() {
		if thrown := caught(recover()); thrown != nil {
			err = thrown
		}
	}()
	m := &joint{m: j.Model, g: j.Model.Graph, out: j, taken: graph.NewNames(j.Model), constants: map[string]Value{},
		prefix: "/grad/"}
	if m.types, err = op.NewExtender(j.Model); err != nil {
		return err
	}
	known, err := live.Pairs(j.Model)
	if err != nil {
		return err
	}
	m.takeWeight()
	pairs, err := m.addUp()
	if err != nil {
		return err
	}
	live.RecordStates(j.Model, append(known, pairs...))
	j.Accumulates = true
	return j.settle()
}

// WeighGradients finds out how the loss of a Joint that FromGradients has made is weighed, and gives it
// WeightOutput where batches do not count alike, as Options.Weigh does of a forward model.
func WeighGradients(j *Joint) (err error) {
	if !j.plain || j.Accumulates {
		return errNotRead
	}
	g := j.Model.Graph
	if v, ok := g.Lookup(WeightOutput); ok && g.Values[v].Output {
		j.Weights.Weighing, j.seeded = Weighted, true
		return nil
	}
	defer func() {
		if thrown := caught(recover()); thrown != nil {
			err = thrown
		}
	}()
	b, err := live.FindBoundary(j.Model)
	if err != nil {
		return err
	}
	m := &joint{m: j.Model, g: g, out: j, taken: graph.NewNames(j.Model), constants: map[string]Value{}}
	if m.types, err = op.NewExtender(j.Model); err != nil {
		return err
	}
	nodes := len(g.Nodes)
	if err := m.weigh(j.Loss, j.Wrt, false); err != nil {
		return err
	}
	at, more := j.Backward, graph.NodeID(len(g.Nodes)-nodes)
	if more == 0 {
		return nil
	}
	g.SetNodes(slices.Concat(g.Nodes[:at], g.Nodes[nodes:], g.Nodes[at:nodes]))
	if j.Backward += more; b.Node >= at {
		b.Node += more
	}
	(&gradientReader{j, g}).record(b)
	return j.settle()
}

// takeWeight finds the weight of the loss in a graph.
func (j *joint) takeWeight() {
	if j.out.Weights.Weighing == Weighted {
		j.weight, j.weighed = j.g.Value(WeightOutput), true
	}
}

// addUp adds each gradient of a graph to its sum, right behind the node that makes it, and counts.
func (j *joint) addUp() (pairs []live.StatePair, err error) {
	nodes := len(j.g.Nodes)
	behind := make([][]*graph.Node, nodes) // by node
	for _, name := range j.out.Wrt {
		first, grad := len(j.g.Nodes), j.g.Value(name+GradSuffix)
		if err := j.addTo(name, grad); err != nil {
			return nil, err
		}
		def := j.g.Values[grad].Def
		behind[def] = append(behind[def], j.g.Nodes[first:]...)
		pairs = append(pairs, live.StatePair{Input: name + SumSuffix, Output: name + SumSuffix + NewSuffix})
	}
	first := len(j.g.Nodes)
	count, err := j.newState(CountInput, countType(j.out))
	if err != nil {
		return nil, err
	}
	if err := j.addOutput(CountInput+NewSuffix, j.nextCount(count), "the next count"); err != nil {
		return nil, err
	}
	var all []*graph.Node
	for i, n := range j.g.Nodes[:nodes] {
		all = append(append(all, n), behind[i]...)
	}
	j.g.SetNodes(append(all, j.g.Nodes[first:]...))
	return append(pairs, live.StatePair{Input: CountInput, Output: CountInput + NewSuffix}), nil
}

// addTo adds the gradient of a parameter, which is then no output, to its sum. The parameter becomes
// an input: it changes between updates.
func (j *joint) addTo(name string, grad Value) error {
	p := j.g.Value(name)
	val := j.g.Values[p]
	t := val.Type
	t.DType = updateType(t.DType)
	sum, err := j.newState(name+SumSuffix, t)
	if err != nil {
		return err
	}
	j.g.Outputs = slices.DeleteFunc(j.g.Outputs, func(d graph.Decl) bool { return d.Value == grad })
	j.g.Values[grad].Output = false
	e := &emitter{j}
	next, typed := name+SumSuffix+NewSuffix, e.Cast(grad, t.DType)
	if j.weighed && !j.out.seeded {
		typed = e.Mul(typed, e.Cast(j.weight, t.DType))
	}
	if err := j.addOutput(next, e.Add(sum, typed), "the next sum of gradients"); err != nil {
		return err
	}
	if val.Input {
		return nil
	}
	return j.g.AddInput(graph.Decl{Value: p, Type: val.Type})
}

// settle verifies an edited graph and infers its types anew.
func (j *Joint) settle() (err error) {
	if err := graph.Verify(j.Model); err != nil {
		return err
	}
	j.Types, err = op.InferAsIs(j.Model)
	return err
}
