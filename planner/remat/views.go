package remat

// withViews puts the computes of views into a sequence of those of other nodes: a view right before
// it is first read since its memory was made, and a view that is never read behind the first compute
// of its base.
func (f *folded) withViews(seq []int32) []int32 {
	w := &viewer{folded: f, made: make([]int32, len(f.maker)), seen: make([]int32, len(f.maker)),
		idle: f.idleViews(), done: make([]bool, len(f.p.Nodes))}
	for _, v := range seq {
		for _, u := range f.p.Nodes[v].Inputs {
			w.need(u)
		}
		for u := f.first[v]; u < f.first[v+1]; u++ {
			if !w.done[v] || !f.keeps[u] { // a kept output stays as it is
				w.made[u]++
			}
		}
		w.compute(v)
	}
	return w.out
}

// viewer is the state of withViews.
type viewer struct {
	*folded
	made []int32   // by value: how often its memory was made
	seen []int32   // by view: that number when the view was made last
	idle [][]int32 // by node: outputs of views of its outputs that are never read
	done []bool    // by node: it was computed
	out  []int32
}

// need makes u if it is a view that is not live.
func (w *viewer) need(u int32) {
	v := w.maker[u]
	if !w.view[v] || w.seen[u] == w.made[w.root[u]] {
		return
	}
	for _, i := range w.p.Nodes[v].Inputs {
		w.need(i)
	}
	for k := w.first[v]; k < w.first[v+1]; k++ {
		w.seen[k] = w.made[w.root[u]]
	}
	w.compute(v)
}

// compute puts in node v, and the first time the views of its outputs that are never read.
func (w *viewer) compute(v int32) {
	w.out = append(w.out, v)
	if !w.done[v] {
		w.done[v] = true
		for _, u := range w.idle[v] {
			w.need(u)
		}
	}
}

// idleViews lists by node an output of each view of its outputs that no other node reads, be it
// through views.
func (f *folded) idleViews() [][]int32 {
	used, idle := usedNodes(f.problemIndex), make([][]int32, len(f.p.Nodes))
	for v, view := range f.view {
		if view && !used[v] {
			m := f.maker[f.p.Nodes[v].Inputs[0]]
			idle[m] = append(idle[m], f.first[v])
		}
	}
	return idle
}

// usedNodes tells by node whether one that is not folded reads its outputs, be it through views.
func usedNodes(x *problemIndex) []bool {
	used := make([]bool, len(x.p.Nodes))
	for v := len(used) - 1; v >= 0; v-- {
		if n := &x.p.Nodes[v]; !n.View || used[v] || len(n.Inputs) > 1 {
			for _, u := range n.Inputs {
				used[x.maker[u]] = true
			}
		}
	}
	return used
}
