package chunk

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// item is a node of the graph that is being written.
type item struct {
	node   *graph.Node
	origin graph.NodeID
	part   Part
	stage  int // of the part's cut
}

// writer rewrites a graph, one cut after the other. Its graph's own lists are false until finish.
type writer struct {
	*finder
	m     *graph.Model
	names *graph.Names
	items []item // in order of execution
	at    []int  // by node of the whole graph: its item, -1 once it was cut
	// vectors are the constants that were added, by contents.
	vectors  map[string]graph.ValueID
	added    []graph.ValueID
	backward []bool // by node of the whole graph
}

func newWriter(f *finder, m *graph.Model, order graph.Order, b live.Boundary) *writer {
	w := &writer{
		finder: f, m: m, backward: live.Split(f.g, b, order), names: graph.NewNames(m),
		vectors: map[string]graph.ValueID{},
	}
	for _, id := range order {
		w.items = append(w.items, item{node: f.g.Nodes[id], origin: id, part: Part{-1, 0}})
	}
	return w
}

// unit is executed as one: an item, or a stage of a region.
type unit struct {
	item  int // -1: a stage
	stage int
	first int // place of its first item, which says when its turn is
	wants int // units that must come before and have not
	next  []int32
}

// ready is a heap of units whose turn has come.
type ready struct {
	units []unit
	list  []int32
}

func (h *ready) Len() int           { return len(h.list) }
func (h *ready) Less(i, j int) bool { return h.units[h.list[i]].first < h.units[h.list[j]].first }
func (h *ready) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *ready) Push(x any)         { h.list = append(h.list, x.(int32)) }
func (h *ready) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// cut computes a chunked region.
func (w *writer) cut(r *region, number int32, parts int) error {
	starts := r.starts(parts)
	if len(starts) < 2 {
		return fmt.Errorf("%d places, and %d of them may begin a part: wanted two parts", r.rows, 1)
	}
	w.numbers(r)
	w.index()
	stage, stages := w.stages(r)
	units := w.units(stage, stages)
	e := &emitter{writer: w, region: r, number: number, starts: starts, parted: map[graph.ValueID][]graph.ValueID{},
		stage: stage, used: w.outside(stage)}
	e.prepare()
	h := &ready{units: units}
	for u := range units {
		if units[u].wants == 0 {
			h.list = append(h.list, int32(u))
		}
	}
	heap.Init(h)
	done := 0
	for h.Len() > 0 {
		u := &units[heap.Pop(h).(int32)]
		done++
		if u.item >= 0 {
			e.out = append(e.out, w.items[u.item])
		} else if err := e.writeStage(u.stage); err != nil {
			return err
		}
		for _, v := range u.next {
			if units[v].wants--; units[v].wants == 0 {
				heap.Push(h, v)
			}
		}
	}
	if done != len(units) {
		return errors.New("its stages wait for each other")
	}
	w.items = e.out
	return nil
}

// starts are the first rows of at most so many parts, and the end: multiples of the grain, as even as
// these allow; nil for a single part.
func (r *region) starts(parts int) (list []int64) {
	unit, n := max(r.grain, 1), min(int64(parts), r.rows)
	size := (r.rows + n - 1) / n
	size = (size + unit - 1) / unit * unit
	for at := int64(0); at < r.rows; at += size {
		list = append(list, at)
	}
	if len(list) < 2 {
		return nil
	}
	return append(list, r.rows)
}

// index notes which item each node of the whole graph is.
func (w *writer) index() {
	w.at = slices.Repeat([]int{-1}, len(w.g.Nodes))
	for i := range w.items {
		if it := &w.items[i]; it.part.Cut < 0 && it.origin != graph.NoNode {
			w.at[it.origin] = i
		}
	}
}

// stages returns by item its stage in a region, -1 outside, and the number of stages. A node is in the
// last stage that the readers of its outputs allow: a value that only the backward half needs, such as
// a transposed activation, is not made in the forward half. Without readers in the region, it is in
// the first stage that has its inputs.
func (w *writer) stages(r *region) (stage []int, stages int) {
	rule := make([]*along, len(w.items))
	for i, id := range r.nodes {
		rule[w.at[id]] = r.along[i]
	}
	stage = w.earliest(rule)
	w.delay(rule, stage)
	for _, s := range stage {
		stages = max(stages, s+1)
	}
	return stage, stages
}

// byPart reports whether a node of the region needs only the same part of an input.
func byPart(a *along, slot int) bool { return a != nil && slot < len(a.in) && a.in[slot].cut() }

// earliest puts every node of a region behind the stages whose joined outputs it needs.
func (w *writer) earliest(rule []*along) []int {
	stage := slices.Repeat([]int{-1}, len(w.items))
	depth := slices.Repeat([]int{-1}, len(w.g.Values)) // the last stage that a value comes from
	inPart := make([]bool, len(w.g.Values))            // it is made by a part of the stage
	for i := range w.items {
		n := w.items[i].node
		at := -1
		if rule[i] != nil {
			at = 0
		}
		for slot, v := range operands(n) {
			if v == graph.NoValue {
				continue
			}
			d := depth[v]
			if rule[i] != nil && d >= 0 && !(inPart[v] && byPart(rule[i], slot)) {
				d++
			}
			at = max(at, d)
		}
		if rule[i] != nil {
			stage[i] = at
		}
		for slot, v := range n.Outputs {
			if v != graph.NoValue {
				depth[v], inPart[v] = at, rule[i] != nil && rule[i].out[slot].cut()
			}
		}
	}
	return stage
}

// delay moves nodes of a region to the last stage that no reader in the region precedes.
func (w *writer) delay(rule []*along, stage []int) {
	const never = math.MaxInt
	latest := slices.Repeat([]int{never}, len(w.g.Values)) // the stage by which a value must be there in parts
	inPart := make([]bool, len(w.g.Values))
	for i, a := range rule {
		for slot, v := range w.items[i].node.Outputs {
			if a != nil && v != graph.NoValue {
				inPart[v] = a.out[slot].cut()
			}
		}
	}
	for i := len(w.items) - 1; i >= 0; i-- {
		n := w.items[i].node
		at := never
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				at = min(at, latest[v])
			}
		}
		if rule[i] != nil {
			if at == never {
				at = stage[i]
			}
			stage[i] = at
		}
		for slot, v := range operands(n) {
			if v == graph.NoValue || at == never {
				continue
			}
			by := at
			if rule[i] != nil && !(inPart[v] && byPart(rule[i], slot)) {
				by--
			}
			latest[v] = min(latest[v], by)
		}
	}
}

// operands are the inputs of a node and the live-ins of its subgraphs.
func operands(n *graph.Node) []graph.ValueID {
	if len(n.Captures()) == 0 {
		return n.Inputs
	}
	return slices.Concat(n.Inputs, n.Captures())
}

// units makes the units of the items and their dependencies.
func (w *writer) units(stage []int, stages int) (units []unit) {
	of := make([]int32, len(w.items))
	at := slices.Repeat([]int32{-1}, stages)
	by := slices.Repeat([]int32{-1}, len(w.g.Values)) // the item that makes a value
	for i := range w.items {
		s := stage[i]
		switch {
		case s < 0:
			units = append(units, unit{item: i, first: i})
		case at[s] < 0:
			at[s] = int32(len(units))
			units = append(units, unit{item: -1, stage: s, first: i})
		}
		if of[i] = int32(len(units) - 1); s >= 0 {
			of[i] = at[s]
		}
		for _, v := range w.items[i].node.Outputs {
			if v != graph.NoValue {
				by[v] = int32(i)
			}
		}
	}
	latest := slices.Repeat([]int32{-1}, len(units)) // by unit: the last one that was noted to wait for it
	for i := range w.items {
		for _, v := range operands(w.items[i].node) {
			if v == graph.NoValue || by[v] < 0 {
				continue
			}
			from, to := of[by[v]], of[i]
			if from == to || latest[from] == to {
				continue
			}
			latest[from] = to
			units[from].next = append(units[from].next, to)
			units[to].wants++
		}
	}
	return units
}

// outside marks the values that something outside of a region's parts reads.
func (w *writer) outside(stage []int) []bool {
	used := make([]bool, len(w.g.Values))
	for i := range w.items {
		if stage[i] >= 0 {
			continue
		}
		for _, v := range operands(w.items[i].node) {
			if v != graph.NoValue {
				used[v] = true
			}
		}
	}
	for _, d := range w.g.Outputs {
		used[d.Value] = true
	}
	return used
}

// finish makes a graph of the items.
func (w *writer) finish(out *Applied, b live.Boundary) (*Applied, error) {
	w.sweep()
	nodes := make([]*graph.Node, len(w.items))
	for i, it := range w.items {
		nodes[i] = it.node
		out.Origin, out.Parts = append(out.Origin, it.origin), append(out.Parts, it.part)
	}
	g := w.g
	g.SetNodes(nodes)
	g.ValueInfo = slices.DeleteFunc(g.ValueInfo, func(d graph.Decl) bool {
		return g.Values[d.Value].Def == graph.NoNode
	})
	if err := op.Define(w.m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCut, err)
	}
	var err error
	if out.Types, err = op.InferAsIs(w.m); err != nil {
		return nil, fmt.Errorf("%w: in parts, the graph is invalid: %w", ErrCut, err)
	}
	for _, v := range w.added {
		if t := g.Values[v].Type; g.Values[v].Def != graph.NoNode && t.Form == graph.FormTensor {
			g.ValueInfo = append(g.ValueInfo, graph.Decl{Value: v, Type: t})
		}
	}
	if err := graph.Verify(w.m); err != nil {
		return nil, fmt.Errorf("%w: in parts, the graph is invalid: %w", ErrCut, err)
	}
	if err := w.bound(b); err != nil {
		return nil, err
	}
	out.Boundary, err = live.FindBoundary(w.m)
	return out, err
}

// bound records the boundary between the halves of a graph without a YieldOp. Where parts go through
// both halves, the backward half begins with the first of them: later nodes may read recomputed
// values.
func (w *writer) bound(b live.Boundary) error {
	if b.Kind == live.YieldBoundary {
		return nil
	}
	if b.Node = w.g.Values[b.Loss].Def; b.Node == graph.NoNode {
		return fmt.Errorf("%w: the loss is there in parts alone", ErrCut)
	}
	first := w.firstBackward(b)
	if first < 0 {
		return nil
	}
	b.Kind, b.Backward = live.RecordedBoundary, graph.NodeID(first)
	w.m.SetMeta(live.BoundaryKey, b.Record(w.g))
	return nil
}

// firstBackward is the place of the first node that counts as backward, -1 where the boundary does not
// say: that of the record, or the begin of the first stage that has nodes of both halves.
func (w *writer) firstBackward(b live.Boundary) int {
	type stage struct {
		cut int32
		at  int
	}
	began := map[stage]int{}
	forward := map[stage]bool{}
	for i, it := range w.items {
		s := stage{it.part.Cut, it.stage}
		if it.part.Cut >= 0 {
			if _, ok := began[s]; !ok {
				began[s] = i
			}
		}
		if it.origin == graph.NoNode {
			continue
		}
		if !w.backward[it.origin] {
			forward[s] = true
			continue
		}
		if it.part.Cut >= 0 && forward[s] {
			return began[s]
		}
		if b.Kind == live.RecordedBoundary && b.Backward != graph.NoNode {
			if it.part.Cut >= 0 {
				return began[s]
			}
			return i
		}
	}
	return -1
}

// sweep removes dead nodes: those that only read the shapes of values that are in parts now.
func (w *writer) sweep() {
	needed := make([]bool, len(w.g.Values))
	for _, d := range w.g.Outputs {
		needed[d.Value] = true
	}
	kept := w.items[:0:0]
	for i := len(w.items) - 1; i >= 0; i-- {
		n := w.items[i].node
		use := w.items[i].part.Cut < 0 && !w.dead(n) || slices.ContainsFunc(n.Outputs, func(v graph.ValueID) bool {
			return v != graph.NoValue && needed[v]
		})
		if !use {
			continue
		}
		for _, v := range operands(n) {
			if v != graph.NoValue {
				needed[v] = true
			}
		}
		kept = append(kept, w.items[i])
	}
	slices.Reverse(kept)
	w.items = kept
}

// dead reports whether a node of the whole graph may be removed if it has no readers: it reads a
// shape.
func (w *writer) dead(n *graph.Node) bool { return op.Of(n.Kind).Has(op.ShapeOf) }
