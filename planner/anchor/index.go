package anchor

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

// index classifies the steps.
func (a *search) index() {
	g, backward := a.g, a.p.Analysis.Backward
	a.def, a.lastUse, a.origin = make([]int32, len(a.program.Bytes)), make([]int32, len(a.program.Bytes)),
		make([]graph.ValueID, len(a.program.Bytes))
	a.active, a.result = make([]bool, len(a.def)), make([]int32, len(a.def))
	for v := range a.def {
		a.def[v], a.lastUse[v], a.origin[v], a.result[v] = -1, -1, graph.NoValue, -1
		if v < len(g.Values) {
			a.origin[v] = graph.ValueID(v)
		}
	}
	for i, v := range slices.Backward(a.program.Outputs) {
		a.result[v] = int32(i)
	}
	a.step = make([]step, len(a.program.Steps))
	follows := false
	for i := range a.program.Steps {
		s, n := &a.program.Steps[i], g.Nodes[a.program.Steps[i].Node]
		clone := false
		for slot, v := range s.Out {
			if v == graph.NoValue {
				continue
			}
			a.def[v], a.active[v] = int32(i), a.shows(v, s)
			if slot < len(n.Outputs) { // behind them stands the workspace
				clone = clone || v != n.Outputs[slot]
				a.origin[v] = n.Outputs[slot]
			}
		}
		moves := clone || backward[s.Node]
		follows = follows || moves
		a.step[i] = step{moves: moves, follows: follows, backward: !clone && backward[s.Node],
			inputs: len(n.Inputs), firstRead: int32(len(a.program.Steps)), lastRead: -1}
		for _, v := range s.In {
			if v != graph.NoValue {
				a.lastUse[v] = int32(i)
			}
			if v != graph.NoValue && a.def[v] >= 0 {
				from := &a.step[a.def[v]]
				from.firstRead, from.lastRead = min(from.firstRead, int32(i)), int32(i)
			}
		}
	}
	for i := range a.step {
		a.step[i].holds = a.holds(i)
	}
}

// holds finds the size of the largest value that a step, or one that is made for this step alone,
// reads or makes.
func (a *search) holds(i int) int64 {
	most := a.touches(i)
	for _, v := range a.program.Steps[i].In {
		if v == graph.NoValue || a.def[v] < 0 {
			continue
		}
		if from := &a.step[a.def[v]]; from.follows && from.firstRead == int32(i) && from.lastRead == int32(i) {
			most = max(most, from.holds)
		}
	}
	return most
}

// shapes lists the shapes of a program's values: a clone has that of its original. With anchors,
// recompute.Apply leaves a dim of the outputs of backward nodes and clones unknown. The list is
// valid until the next call.
func (a *search) shapes(p *live.Program, anchored bool) []ortsim.Shape {
	a.shape = a.shape[:0]
	for v := range p.Bytes {
		if anchored && v < len(a.def) && a.def[v] >= 0 && a.step[a.def[v]].moves && a.loose(graph.ValueID(v)) {
			a.shape = append(a.shape, ortsim.UnknownShape)
		} else if v < len(a.origin) && a.origin[v] != graph.NoValue {
			a.shape = append(a.shape, a.facts.Shape(a.origin[v]))
		} else {
			a.shape = append(a.shape, ortsim.UnknownShape)
		}
	}
	return a.shape
}

// loose reports whether an anchored graph leaves a dim of a value open.
func (a *search) loose(v graph.ValueID) bool {
	return a.origin[v] != graph.NoValue && recompute.Loose(&a.p.Analysis.Graph.Values[a.origin[v]].Type) >= 0
}
