package remat

import (
	"math"
	"slices"
)

// folded is a Problem without its views, in one order of first computes: a reader of a view reads the
// value whose memory the view shares. A view is made when it is first read, and again when it is read
// after that memory was recomputed (see remake).
//
// Each remaining node is a Task of the graph. A node with both kept and other outputs becomes two: the
// second, which never runs again, makes the kept ones, and the first has workspace for them. So a kept
// output lives once, and a second run needs memory for its copy.
type folded struct {
	*problemIndex
	view  []bool    // by node: it is folded
	root  []int32   // by value: the value whose memory it shares
	seen  [][]int32 // by node: the values that must be live when it is computed: roots, and the inputs of its views
	keeps []bool    // by value; see problemIndex.kept
	once  []bool    // by node: it must not be recomputed, or there is no use in it
	real  []int32   // the nodes that are no views, in the given order
	cost  []int64   // by node: of a second run, with that of its views
	least []int64   // by node: of a second run, at least
	scale float64

	stamp []int32   // by value: one past the last node that is known to read it, while they are folded
	deps  [][]int32 // by node: the nodes that are no views and make its inputs, some of them twice
	graph *Graph
	node  []int32 // by task: its node, or -1 for the second task of a node
	task  []int32 // by node: its task, the first of two; -1 for views
	place []int32 // by value: its number in the graph
}

// foldable tells by node whether it is folded: a view that is never read and has inputs besides its
// base is not, since there is no place where all of that is live for sure.
func foldable(x *problemIndex) []bool {
	used, view := usedNodes(x), make([]bool, len(x.p.Nodes))
	for v := range view {
		n := &x.p.Nodes[v]
		view[v] = n.View && (used[v] || len(n.Inputs) == 1)
	}
	return view
}

func fold(p *Problem) *folded { return foldTo(p, p.scale()) }

// foldTo is fold with another factor of costs.
func foldTo(p *Problem, scale float64) *folded {
	x, n := newProblemIndex(p), len(p.Nodes)
	f := &folded{problemIndex: x, root: x.roots(), view: foldable(x), keeps: x.kept(), scale: scale,
		seen: make([][]int32, n), once: make([]bool, n), cost: make([]int64, n), least: make([]int64, n),
		stamp: make([]int32, len(x.maker)), deps: make([][]int32, n)}
	for v := range p.Nodes {
		f.add(int32(v))
	}
	return f
}

// add folds node v.
func (f *folded) add(v int32) {
	n := &f.p.Nodes[v]
	mark := func(u int32) {
		if f.stamp[u] != v+1 {
			f.stamp[u] = v + 1
			f.seen[v] = append(f.seen[v], u)
		}
	}
	for _, u := range n.Inputs {
		if m := f.maker[u]; f.view[m] {
			for _, r := range f.seen[m] {
				mark(r)
			}
		} else {
			mark(u)
		}
	}
	cost := f.whole(n.Cost)
	if f.view[v] {
		base := f.maker[f.root[f.first[v]]]
		f.cost[base] += cost
		f.once[base] = f.once[base] || n.Once
		return
	}
	f.real = append(f.real, v)
	f.least[v] = max(1, cost)
	f.cost[v] += f.least[v]
	f.once[v] = f.once[v] || n.Once || f.keptOf(v) == len(n.Outputs)
	for _, r := range f.seen[v] {
		f.deps[v] = append(f.deps[v], f.maker[r])
	}
}

// whole is a cost as the search counts it.
func (f *folded) whole(cost float64) int64 { return int64(math.Round(cost * f.scale)) }

// keptOf is how many outputs of node v are kept.
func (f *folded) keptOf(v int32) int {
	count := 0
	for u := f.first[v]; u < f.first[v+1]; u++ {
		if f.keeps[u] {
			count++
		}
	}
	return count
}

// arrange makes the graph of first computes in an order, which lists the nodes that are no views.
func (f *folded) arrange(order []int32) {
	f.graph, f.node = &Graph{}, nil
	f.task = make([]int32, len(f.p.Nodes))
	for v := range f.task {
		f.task[v] = -1
	}
	f.place = make([]int32, len(f.maker))
	for _, v := range order {
		f.addTask(v)
	}
}

func (f *folded) addTask(v int32) {
	n, g := &f.p.Nodes[v], f.graph
	f.task[v] = int32(len(g.Tasks))
	f.node = append(f.node, v)
	task := Task{Cost: f.cost[v], Workspace: n.Workspace, Once: f.once[v]}
	for _, u := range f.seen[v] {
		task.Uses = append(task.Uses, f.place[u])
	}
	kept := Task{Once: true}
	split := !f.once[v] && f.keptOf(v) > 0
	for u := f.first[v]; u < f.first[v+1]; u++ {
		to := &task
		if split && f.keeps[u] {
			task.Workspace += f.bytes(u)
			to = &kept
		}
		f.place[u] = int32(len(g.Values))
		to.Makes = append(to.Makes, f.place[u])
		g.Values = append(g.Values, Value{Size: f.bytes(u), Keep: f.keeps[u]})
	}
	if g.Tasks = append(g.Tasks, task); split {
		g.Tasks = append(g.Tasks, kept)
		f.node = append(f.node, -1)
	}
}

// bytes is the size of value u; 0 for a view.
func (f *folded) bytes(u int32) int64 {
	if f.p.Nodes[f.maker[u]].View {
		return 0
	}
	return f.output(u).Size
}

// relaxed is the graph with costs of second runs that no schedule undercuts, and without the inputs
// of views besides their bases: these may be gone when the view is read.
func (f *folded) relaxed() *Graph {
	g := *f.graph
	g.Tasks = slices.Clone(g.Tasks)
	stamp := make([]int32, len(g.Values)) // one past the last task known to read a value
	for t, v := range f.node {
		if v < 0 {
			continue
		}
		task := &g.Tasks[t]
		task.Cost, task.Uses = f.least[v], nil
		if f.p.Nodes[v].View { // it may come anywhere
			continue
		}
		for _, u := range f.p.Nodes[v].Inputs {
			if f.view[f.maker[u]] {
				u = f.root[u]
			}
			if place := f.place[u]; stamp[place] != int32(t)+1 {
				stamp[place] = int32(t) + 1
				task.Uses = append(task.Uses, place)
			}
		}
	}
	return &g
}

// sequence is the nodes of all runs in order.
func (f *folded) sequence(extras []Extra) []int32 {
	seq := []int32{} // not nil, which stands for no sequence
	for _, r := range f.graph.Runs(extras) {
		if v := f.node[r.Task]; v >= 0 {
			seq = append(seq, v)
		}
	}
	return seq
}

// steps turns a sequence of nodes into steps: views are put in where they are read, and each value
// is freed right after its last use before it is made anew.
func (f *folded) steps(seq []int32) []Step {
	seq = f.withViews(seq)
	first := make([]int, len(f.p.Nodes)) // by node: the place of its first compute
	for i := len(seq) - 1; i >= 0; i-- {
		first[seq[i]] = i
	}
	wanted := slices.Clone(f.keeps)
	var steps []Step // built from the end
	for i := len(seq) - 1; i >= 0; i-- {
		v, mark := seq[i], len(steps)
		want := func(u int32) {
			if !wanted[u] {
				wanted[u] = true
				steps = append(steps, Step{Free: true, Node: u})
			}
		}
		for u := f.first[v]; u < f.first[v+1]; u++ {
			want(u)
		}
		for _, u := range f.p.Nodes[v].Inputs {
			want(u)
			f.eachBase(u, want)
		}
		// A view stands behind its base in the order of values, and this list is read backwards.
		slices.SortFunc(steps[mark:], func(a, b Step) int { return int(a.Node) - int(b.Node) })
		steps = append(steps, Step{Node: v})
		for u := f.first[v]; u < f.first[v+1]; u++ {
			wanted[u] = f.keeps[u] && first[v] < i
		}
	}
	slices.Reverse(steps)
	return steps
}

// eachBase visits the values that must stay while u does: those that it is a view of.
func (f *folded) eachBase(u int32, visit func(int32)) {
	for n := &f.p.Nodes[f.maker[u]]; n.View; n = &f.p.Nodes[f.maker[u]] {
		u = n.Inputs[0]
		visit(u)
	}
}
