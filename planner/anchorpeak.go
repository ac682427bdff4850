package planner

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
)

// index finds out what is what among the steps.
func (a *anchorSearch) index() {
	g, backward := a.p.Analysis.Graph, a.p.Analysis.Backward
	a.def, a.lastUse, a.origin = make([]int32, len(a.program.Bytes)), make([]int32, len(a.program.Bytes)), make([]graph.ValueID, len(a.program.Bytes))
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
	a.step = make([]anchorStep, len(a.program.Steps))
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
		a.step[i] = anchorStep{moves: clone || backward[s.Node], backward: !clone && backward[s.Node],
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
		a.step[i].holds, a.step[i].result = a.holds(i), a.copiesResult(i)
	}
}

// copiesResult reports whether a step is an Identity by which a graph output gets its name.
func (a *anchorSearch) copiesResult(i int) bool {
	s := &a.program.Steps[i]
	return s.Kind == op.Identity && s.In[0] != graph.NoValue && s.Out[0] != graph.NoValue && a.def[s.In[0]] >= 0 &&
		a.lastUse[s.Out[0]] < 0 && a.result[s.Out[0]] >= 0
}

// holds finds the size of the largest value that a step, or one that is made for this step alone,
// reads or makes.
func (a *anchorSearch) holds(i int) int64 {
	most := a.touches(i)
	for _, v := range a.program.Steps[i].In {
		if v == graph.NoValue || a.def[v] < 0 {
			continue
		}
		if from := &a.step[a.def[v]]; from.moves && from.firstRead == int32(i) && from.lastRead == int32(i) {
			most = max(most, from.holds)
		}
	}
	return most
}

// peaks is the peak at default settings, of live bytes and of the bytes in use in the runtime's
// arena.
func (a *anchorSearch) peaks(p *live.Program) (bytes, chunks int64) {
	bytes, q, order := a.optimized(p)
	return bytes, a.arena.inChunks(q, order, 0)
}

// surePeaks is as peaks, with the highest of several estimates for the arena.
func (a *anchorSearch) surePeaks(p *live.Program) (bytes, chunks int64) {
	bytes, q, order := a.optimized(p)
	return bytes, a.arena.mostInChunks(q, order)
}

// optimized simulates a program as ONNX Runtime's optimizations leave it, and returns the peak of
// the live bytes, and what it ran in which order.
func (a *anchorSearch) optimized(p *live.Program) (int64, *live.Program, []int32) {
	a.arena.class = a.classes(p)
	q, order := a.optimizer.rewrite(p)
	return a.arena.run(q, order, a.shapes, false), q, order
}

// robustPeak is the highest peak of several orders: the default one with and without optimizations,
// and one that walks the other way, for what optimizations do to the numbers of nodes.
func (a *anchorSearch) robustPeak(p *live.Program) (int64, error) {
	worst := int64(0)
	for _, o := range []*live.DefaultOrderer{&a.plain, &a.basic, &a.reverse} {
		peak, err := a.peakOf(p, o)
		if err != nil {
			return 0, err
		}
		worst = max(worst, peak)
	}
	return worst, nil
}

func (a *anchorSearch) peakOf(p *live.Program, o *live.DefaultOrderer) (int64, error) {
	return a.peakIn(p, o.Order(p), !o.Basic)
}

// peakIn simulates a program in an order of its steps as ONNX Runtime uses memory. Without
// optimizations an Identity that makes a graph output copies.
func (a *anchorSearch) peakIn(p *live.Program, order []int32, copies bool) (int64, error) {
	a.arena.class = a.classes(p)
	return a.arena.run(p, order, a.shapes, copies), nil
}

// classes numbers the shapes of a program's values: a clone has that of its original. Where anchors
// are, recompute.Apply leaves a dim of what backward nodes and clones make unknown.
func (a *anchorSearch) classes(p *live.Program) []int32 {
	anchored := p == &a.work.out && len(a.work.anchors) > 0
	a.class = a.class[:0]
	for v := range p.Bytes {
		if anchored && v < len(a.def) && a.def[v] >= 0 && a.step[a.def[v]].moves && a.loose(graph.ValueID(v)) {
			a.class = append(a.class, -1)
		} else if v < len(a.origin) && a.origin[v] != graph.NoValue {
			a.class = append(a.class, a.shape[a.origin[v]])
		} else {
			a.class = append(a.class, -1)
		}
	}
	return a.class
}

// loose reports whether an anchored graph leaves a dim of a value open.
func (a *anchorSearch) loose(v graph.ValueID) bool {
	return a.origin[v] != graph.NoValue && recompute.Loose(&a.p.Analysis.Graph.Values[a.origin[v]].Type) >= 0
}
