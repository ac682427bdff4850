package autograd

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/hint"
)

// ErrNoUpdate means that a graph with a backward half does not update any value that its forward
// half reads.
var ErrNoUpdate = fmt.Errorf("the graph updates no parameter: none of its outputs is known to be the next value of "+
	"an input that its forward half reads (%v says so)", hint.States.With("IN=OUT"))

// FromStep returns the Joint of a whole training step, which updates its parameters itself: those of
// its states that the forward half reads. The model itself is not changed. The error is
// live.ErrNoBoundary or ErrNoUpdate.
func FromStep(m *graph.Model) (*Joint, error) {
	r := &gradientReader{j: &Joint{Model: m.Clone(), Updates: true}}
	r.g = r.j.Model.Graph
	if err := r.infer(); err != nil {
		return nil, err
	}
	b, err := live.FindBoundary(r.j.Model)
	if err != nil {
		return nil, err
	}
	states, err := live.FindStates(r.j.Model)
	if err != nil {
		return nil, err
	}
	order, err := graph.Topological(r.g)
	if err != nil {
		return nil, err
	}
	r.findUpdated(states, live.Split(r.g, b, order))
	if len(r.j.Wrt) == 0 {
		return nil, ErrNoUpdate
	}
	if err := r.findLoss(b); err != nil {
		return nil, err
	}
	if v, ok := r.g.Lookup(FiniteOutput); ok && r.g.Values[v].Output {
		r.j.LossScale = r.scaleInput()
	}
	r.record(b)
	return r.j, r.infer()
}

// findUpdated lists the states that are parameters: the forward half reads them, and they are not
// running counts of an operator, as the statistics of a norm.
func (r *gradientReader) findUpdated(states []live.State, backward []bool) {
	uses := graph.NewUses(r.g)
	for _, s := range states {
		def := r.g.Values[s.Out].Def
		if def == graph.NoNode || !backward[def] || !r.g.Values[s.In].Type.DType.IsFloat() {
			continue
		}
		for _, u := range uses.Of(s.In) {
			if !backward[u.Node] {
				r.j.Wrt = append(r.j.Wrt, r.g.ValueName(s.In))
				break
			}
		}
	}
}

// scaleInput is the float scalar, besides the learning rate, that the step reads and does not update;
// "" where that is not the only one.
func (r *gradientReader) scaleInput() string {
	name := ""
	for _, d := range r.g.Inputs {
		v := &r.g.Values[d.Value]
		n, _ := v.Type.Shape.Elements().Const()
		if n != 1 || !v.Type.DType.IsFloat() || r.g.ValueName(d.Value) == LRInput || v.Data != nil {
			continue
		}
		if name != "" {
			return ""
		}
		name = r.g.ValueName(d.Value)
	}
	return name
}
