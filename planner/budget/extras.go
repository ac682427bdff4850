package budget

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/planner/remat"
	"memopt/recompute"
)

// placements turns extra runs into placements, one for each run. A run, or a backward node, that
// reads a view of a recomputed value gets a clone of the view, too.
func (t *tasks) placements(extras []remat.Extra) []recompute.Placement {
	g := t.a.Graph
	w := &placementWriter{tasks: t, version: make([]int32, len(g.Nodes)),
		copies: make([]int, len(g.Nodes))}
	// Runs before a forward node, which reads originals, go before the next backward one.
	var pending []graph.NodeID
	for place, id := range t.a.Order {
		for ; len(extras) > 0 && extras[0].Before == int32(place); extras = extras[1:] {
			pending = append(pending, t.a.Order[extras[0].Task])
		}
		if !t.a.Backward[id] {
			continue
		}
		for _, again := range pending {
			w.run(again, id)
		}
		pending = pending[:0]
		w.views(id)
		if len(w.nodes) > 0 {
			w.place(w.nodes[len(w.nodes)-1], id)
		}
		w.version[id] = w.last // it is, or shows, the current clone
	}
	return w.out
}

// extras turns placements into the extra runs that they have, without those of views. pos has the places of nodes.
func (t *tasks) extras(placements []recompute.Placement, pos []int32) (out []remat.Extra) {
	for i := range placements {
		p := &placements[i]
		for _, id := range p.Nodes {
			if !t.sizes.View(t.a.Graph.Nodes[id]) {
				out = append(out, remat.Extra{Task: pos[id], Before: pos[p.Before]})
			}
		}
	}
	return slices.Compact(remat.SortExtras(out))
}

type placementWriter struct {
	*tasks
	version []int32 // by node: the number of its newest clone, 0 for the node itself; numbers rise
	last    int32
	copies  []int
	nodes   []graph.NodeID // of the next placement
	out     []recompute.Placement
}

// run recomputes a node.
func (w *placementWriter) run(id, before graph.NodeID) {
	w.views(id)
	w.clone(id)
	w.place(id, before)
}

func (w *placementWriter) clone(id graph.NodeID) {
	w.last++
	w.version[id] = w.last
	w.nodes = append(w.nodes, id)
}

// views recomputes those views read by a node that show the original, or an older clone, of a value
// that has a newer clone.
func (w *placementWriter) views(id graph.NodeID) {
	g := w.a.Graph
	for _, v := range g.Nodes[id].Inputs {
		if v == graph.NoValue {
			continue
		}
		if def := g.Values[v].Def; def != graph.NoNode {
			w.refresh(def)
		}
	}
}

// refresh recomputes a view whose source is newer. It walks up the views first, without recursion:
// they can be nested arbitrarily deep.
func (w *placementWriter) refresh(view graph.NodeID) {
	g := w.a.Graph
	n := g.Nodes[view]
	if !w.sizes.View(n) || n.Input(0) == graph.NoValue {
		return
	}
	def := g.Values[n.Input(0)].Def
	if def == graph.NoNode {
		return
	}
	w.refresh(def)
	if w.version[def] > w.version[view] {
		w.clone(view)
	}
}

// place ends a placement.
func (w *placementWriter) place(id, before graph.NodeID) {
	g := w.a.Graph
	w.copies[id]++
	w.out = append(w.out, recompute.Placement{Value: w.stashed(id), Nodes: w.nodes, Before: before,
		Copy:   w.copies[id],
		Reason: fmt.Sprintf("%q is the next node that needs it or a value made from it", g.NodeLabel(before))})
	w.nodes = nil
}

// stashed is the output of a node that its placement names: the first.
func (w *placementWriter) stashed(id graph.NodeID) graph.ValueID {
	for _, v := range w.a.Graph.Nodes[id].Outputs {
		if v != graph.NoValue {
			return v
		}
	}
	return graph.NoValue
}
