package parallel

import (
	"slices"

	"memopt/answers/estimate/parts"
	"memopt/graph"
)

// account adds up the memory of a stage without a plan.
func (s *splitter) account(st *Stage) {
	st.InFlight = inFlight(s.layout, st.Stage)
	for _, c := range st.Chunks {
		st.Constants += c.constants
		st.Gather = max(st.Gather, c.model.gather)
	}
	s.parameters(st)
	uses := make([]Usage, len(st.Chunks))
	for i, c := range st.Chunks {
		uses[i] = c.Usage
	}
	st.Parts, st.load = s.worst(st, uses)
}

// worst is the memory of a stage at its worst moment, given the usage of its chunks.
func (s *splitter) worst(st *Stage, uses []Usage) (parts.Parts, load) {
	stash, peak := make([]int64, len(uses)), make([]int64, len(uses))
	for i, u := range uses {
		stash[i], peak[i] = u.Stash, u.Peak
	}
	l := worst(s.layout, st.Stage, stash, peak)
	p, run := s.states(st), &uses[l.chunk]
	p.Inputs = st.Chunks[l.chunk].Inputs
	p.Weights += st.Constants + p.Inputs
	p.Workspace = run.parts.Workspace
	p.Activations = run.parts.Activations + l.bytes - run.Peak
	p.Temporaries = run.Peak - run.parts.Activations - run.parts.Workspace + st.Gather + st.Gathered
	p.Reserve = s.opts.Reserve
	return p, l
}

// parameters adds up parameters, and the cost of each.
func (s *splitter) parameters(st *Stage) {
	var all []graph.ValueID
	for _, c := range st.Chunks {
		for _, v := range c.model.params {
			if !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	var sum parts.PerParameter
	layers := map[string]int64{}
	largest := int64(0)
	for _, v := range all {
		n := s.elements(v)
		cost := s.opts.Cost(s.step.Graph.Values[v].Type.DType)
		st.Params += n
		sum.Weight += n * cost.Weight
		sum.Gradient += n * cost.Gradient
		sum.Master += n * cost.Master
		sum.Moments += n * cost.Moments
		layer := s.layerOf(v)
		layers[layer] += n * cost.Weight
		largest = max(largest, layers[layer])
	}
	st.States = sum
	if s.layout.Zero == 3 && s.layout.DP > 1 {
		st.Gathered = 2 * largest
	}
}

// states are the parts that parameters make up, divided by ZeRO.
func (s *splitter) states(st *Stage) (p parts.Parts) {
	dp := int64(s.layout.DP)
	share := func(bytes int64, stage int) int64 {
		if s.layout.Zero < stage {
			return bytes
		}
		return (bytes + dp - 1) / dp
	}
	p.Weights, p.Gradients = share(st.States.Weight, 3), share(st.States.Gradient, 2)
	p.State = share(st.States.Master+st.States.Moments, 1)
	p.Master = share(st.States.Master, 1)
	return p
}

// elements is how many elements of a parameter lie on one rank of tensor parallel.
func (s *splitter) elements(v graph.ValueID) int64 {
	n := int64(1)
	for i, d := range s.div.dims[v] {
		if c := s.div.cuts[v]; c.kind != whole && c.axis == i {
			d = s.div.part(d)
		}
		n *= d
	}
	return n
}

// layerOf is the layer of the first node that reads a parameter, else the layer in its name.
func (s *splitter) layerOf(v graph.ValueID) string {
	g := s.step.Graph
	for _, id := range s.whole.Analysis.Order {
		if slices.Contains(g.Nodes[id].Inputs, v) {
			if layer := graph.LayerOf(g.NodeLabel(id)); layer != graph.NoLayer {
				return layer
			}
			break
		}
	}
	return graph.LayerOf(g.ValueName(v))
}
