package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// keepStatistics makes the new values of running statistics outputs of the graph, and records which
// they follow. Exported models of PyTorch drop them: there the module's buffers are written behind the
// graph's back.
//
// The numbers are ONNX's: new = momentum·old + (1-momentum)·batch, where PyTorch's momentum is 1 less
// this one; and the batch's variance is that of the population, sum/n, where PyTorch's is the unbiased
// one, sum/(n-1).
func (j *joint) keepStatistics(order graph.Order) error {
	s := &statistics{joint: j, newest: map[Value]Value{}}
	for _, id := range order {
		n := j.g.Nodes[id]
		info := opInfo(n)
		if info.Trains == nil || !info.Trains(n, info.VersionOf(n, graph.OpsetVersion(j.m.Opsets, info.Domain))) {
			continue
		}
		for _, u := range info.Updates {
			s.keep(n, u)
		}
	}
	return s.record()
}

// statistics collects the running statistics of a graph.
type statistics struct {
	*joint
	kept   []Value         // inputs
	newest map[Value]Value // by input: its last new value so far
}

// keep has a node make a new value of statistics that outlive the step.
func (s *statistics) keep(n *graph.Node, u op.Update) {
	in := s.source(n.Input(u.In))
	if in == None || s.g.Values[in].Def != graph.NoNode {
		return // made anew in each step
	}
	if n.Output(u.Out) == None {
		s.addResult(n, u.Out, s.g.Values[in].Type)
	}
	if last, ok := s.newest[in]; ok {
		n.Inputs[u.In] = last
	} else {
		s.kept = append(s.kept, in)
	}
	s.newest[in] = n.Output(u.Out)
}

// record makes the newest values outputs, and registers them and the old ones as states.
func (s *statistics) record() error {
	if len(s.kept) == 0 {
		return nil
	}
	pairs, err := live.Pairs(s.m)
	if err != nil {
		return err
	}
	for _, in := range s.kept {
		val, out := s.g.Values[in], s.newest[in]
		if !val.Input {
			if err := s.g.AddInput(graph.Decl{Value: in, Type: val.Type}); err != nil {
				return err
			}
		}
		if !s.g.Values[out].Output {
			if err := s.g.AddOutput(graph.Decl{Value: out, Type: val.Type}); err != nil {
				return err
			}
		}
		pairs = slices.DeleteFunc(pairs, func(p live.StatePair) bool { return p.Input == val.Name })
		pairs = append(pairs, live.StatePair{Input: val.Name, Output: s.g.ValueName(out)})
	}
	live.RecordStates(s.m, pairs)
	return nil
}

// addResult gives a node an output that it was not asked for.
func (j *joint) addResult(n *graph.Node, slot int, t graph.Type) {
	v := j.newValue(j.labelOf(n) + "_statistics")
	for len(n.Outputs) <= slot {
		n.Outputs = append(n.Outputs, None)
	}
	n.Outputs[slot] = v
	val := &j.g.Values[v]
	val.Def, val.DefSlot, val.Type = n.ID, int32(slot), t
}
