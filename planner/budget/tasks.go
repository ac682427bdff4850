package budget

import (
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/arena"
	"memopt/planner/place"
	"memopt/planner/remat"
	"memopt/recompute"
)

// tasks is a training graph in the form that package remat searches. Task i is the node at place i of
// the order. Views make no values: a reader of a view uses the value whose bytes it shows; clones of
// views are added when extra runs are turned into placements. Sizes are those in an arena, rounded up to
// the alignment; values inside subgraphs are in no arena and do not count. Parts are copied here
// (live.Slices): the simulator, which judges plans, shares their bytes only where that lowers the peak.
type tasks struct {
	a     *recompute.Analysis
	graph *remat.Graph
	// loose is graph with recomputation allowed for every task that may run twice at all, even if
	// readers of its original remain. Bounds refer to it, and so hold for all plans: those of levels,
	// configurations and plan files, too.
	loose  *remat.Graph
	sizes  *live.Sizes
	root   []graph.ValueID // by value: whose bytes it shows; NoValue for persistent ones
	value  []int32         // by root: its number in graph.Values, or -1
	whyNot []string        // by node: why it must not be recomputed, or ""
	isPart []bool          // by number: it may lie in the buffer of another value
	stamp  []graph.NodeID  // by number of a value: one past the last node found to use it
}

// stepUnits is about the number of cost units in a step: enough to keep the ratios of the smallest
// nodes, and few enough that thousands of steps add up within int64.
const stepUnits = 1 << 46

// unitsPerSecond is the number of cost units in a second.
func unitsPerSecond(seconds []float64) float64 {
	total := 0.0
	for _, s := range seconds {
		total += s
	}
	if total <= 0 {
		return 0
	}
	return stepUnits / total
}

// newTasks translates the graph on an evaluator. seconds has the time of every node. round is
// arena.Align, but for tests. state has the values that lie in the buffers of states, according to the
// timeline of the unchanged graph: they have no bytes.
func newTasks(b *place.Evaluator, seconds []float64, round func(int64) int64, state []graph.ValueID) *tasks {
	a, sizes, workspace := b.Analysis, b.Sizes, b.Memory.Workspace
	g := a.Graph
	t := &tasks{a: a, graph: &remat.Graph{}, sizes: sizes, root: rootsOf(g, sizes, state),
		value: make([]int32, len(g.Values)), whyNot: make([]string, len(g.Nodes))}
	t.numberValues(sizes.Bytes, round)
	t.stamp = make([]graph.NodeID, len(t.graph.Values))
	t.judge()
	until := t.judgeStates(state)
	replayable := t.judgeReaders(b.Pos)
	units := unitsPerSecond(seconds)
	for _, id := range a.Order {
		n := g.Nodes[id]
		task := remat.Task{Once: t.whyNot[id] != "" || t.sizes.View(n)}
		if id := int(id); id < len(seconds) {
			task.Cost = int64(math.Round(seconds[id] * units))
		}
		if workspace != nil {
			task.Workspace = round(workspace[id])
		}
		if until != nil {
			task.Until = until[id]
		}
		t.operands(n, &task, sizes.Bytes)
		t.graph.Tasks = append(t.graph.Tasks, task)
	}
	t.graph.From = t.firstBackward()
	t.loose = &remat.Graph{Tasks: slices.Clone(t.graph.Tasks), Values: t.looseValues(), From: t.graph.From}
	for _, id := range replayable {
		t.loose.Tasks[b.Pos[id]].Once = t.sizes.View(g.Nodes[id])
	}
	return t
}

// looseValues returns the values as bounds count them: parts, which may lie in the buffer of another
// value, have no bytes of their own while that is live, and a value shown by a graph output through a
// view of the backward half need not live on, since the view may show a clone.
func (t *tasks) looseValues() []remat.Value {
	values := slices.Clone(t.graph.Values)
	t.isPart = make([]bool, len(values))
	for v := range values {
		values[v].Keep = false
	}
	for _, d := range t.a.Graph.Outputs {
		if r := t.root[d.Value]; r != graph.NoValue && t.showsFirst(d.Value) {
			values[t.value[r]].Keep = true
		}
	}
	if t.sizes.Slices == nil || t.sizes.Aliased != nil {
		return values
	}
	wholes := make([]int32, len(values)) // by number: of how many values it is a part
	for place, id := range t.a.Order {
		n, parts := t.a.Graph.Nodes[id], t.sizes.Slices[id]
		if parts == nil {
			continue
		}
		list, out := n.Outputs, graph.NoValue
		if parts.Join {
			list, out = n.Inputs, n.Output(0)
		}
		for slot, at := range parts.At {
			v := list[slot]
			if at < 0 || v == graph.NoValue || t.root[v] == graph.NoValue {
				continue
			}
			number := t.value[t.root[v]]
			values[number].Size, t.isPart[number] = 0, true
			wholes[number]++
			if out != graph.NoValue && t.value[out] >= 0 { // rounded down: in it, parts are not aligned like values
				bytes := max(t.sizes.Bytes[v], 0)
				values[number].Part, values[number].Join = bytes-bytes%arena.Alignment, int32(place)
			}
		}
	}
	for v := range values { // one that may lie in several others has no bytes
		if part := &values[v]; part.Part > 0 && (wholes[v] > 1 || t.isPart[t.graph.Tasks[part.Join].Makes[0]]) {
			part.Part = 0
		}
	}
	return values
}

// showsFirst reports whether a value shows the first run of its root's node: all views on the way are
// forward nodes, which read originals.
func (t *tasks) showsFirst(v graph.ValueID) bool {
	g := t.a.Graph
	for v != t.root[v] {
		def := g.Values[v].Def
		if t.a.Backward[def] {
			return false
		}
		v = g.Nodes[def].Input(0)
	}
	return true
}

// rootsOf finds for every value the one whose bytes it shows.
func rootsOf(g *graph.Graph, sizes *live.Sizes, state []graph.ValueID) []graph.ValueID {
	root := make([]graph.ValueID, len(g.Values))
	for i := range root {
		root[i] = graph.ValueID(i)
		if live.Persistent(g, graph.ValueID(i)) || state != nil && state[i] != graph.NoValue {
			root[i] = graph.NoValue
		}
	}
	order, _ := graph.Topological(g) // the plan has an order, so there is one
	for _, id := range order {
		if n := g.Nodes[id]; sizes.View(n) && n.Output(0) != graph.NoValue && n.Input(0) != graph.NoValue {
			root[n.Output(0)] = root[n.Input(0)]
		}
	}
	return root
}

// numberValues numbers the roots in the order of their production.
func (t *tasks) numberValues(bytes []int64, round func(int64) int64) {
	g := t.a.Graph
	for i := range t.value {
		t.value[i] = -1
	}
	for _, id := range t.a.Order {
		for _, v := range g.Nodes[id].Outputs {
			if v != graph.NoValue && t.root[v] == v {
				t.value[v] = int32(len(t.graph.Values))
				t.graph.Values = append(t.graph.Values, remat.Value{Size: round(max(bytes[v], 0))})
			}
		}
	}
	for _, d := range g.Outputs {
		if r := t.root[d.Value]; r != graph.NoValue {
			t.graph.Values[t.value[r]].Keep = true
		}
	}
}

// judge notes for every node why the op table forbids its recomputation, if it does.
func (t *tasks) judge() {
	replays := recompute.NewReplays(t.a.Model)
	for i := range t.whyNot {
		t.whyNot[i] = replays.WhyNot(graph.NodeID(i))
	}
}

// judgeStates excludes the nodes that write into the buffer of a state. It returns by node the last
// place in the order for a recomputation: where an operand in such a buffer is overwritten, since a
// later run would need a copy. 0 means no limit. Running statistics do not count: they are small, and a
// copy of them does no harm.
func (t *tasks) judgeStates(state []graph.ValueID) []int32 {
	if state == nil {
		return nil
	}
	g := t.a.Graph
	until, written := make([]int32, len(g.Nodes)), make([]int32, len(g.Values))
	for place := len(t.a.Order) - 1; place >= 0; place-- {
		id := t.a.Order[place]
		n := g.Nodes[id]
		info := op.Of(n.Kind)
		for slot, v := range n.Outputs {
			if v != graph.NoValue && state[v] != graph.NoValue && !t.sizes.View(n) && !info.Updated(slot) {
				written[state[v]] = int32(place)
				t.whyNot[id] = "it writes into the memory of state \"" + g.ValueName(state[v]) + "\""
			}
		}
		for _, list := range [][]graph.ValueID{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v == graph.NoValue || state[v] == graph.NoValue {
					continue
				}
				if w := written[state[v]]; w > 0 && (until[id] == 0 || w < until[id]) {
					until[id] = w
				}
			}
		}
	}
	return until
}

// judgeReaders excludes from the search, and returns, the nodes whose results are read where a
// clone would not replace them: by forward nodes behind the first backward one, and by subgraphs
// there.
func (t *tasks) judgeReaders(pos []int32) (taken []graph.NodeID) {
	g, from := t.a.Graph, t.firstBackward()
	for i, n := range g.Nodes {
		if pos[i] < from {
			continue
		}
		originals := [2][]graph.ValueID{n.Captures()}
		if !t.a.Backward[i] {
			originals[1] = n.Inputs
		}
		for _, list := range originals {
			for _, v := range list {
				if v == graph.NoValue || t.root[v] == graph.NoValue {
					continue
				}
				if def := g.Values[t.root[v]].Def; t.whyNot[def] == "" {
					t.whyNot[def] = "node \"" + g.NodeLabel(graph.NodeID(i)) + "\" needs the original"
					taken = append(taken, def)
				}
			}
		}
	}
	return taken
}

// firstBackward is the place of the first backward node, or the number of nodes without a backward half.
func (t *tasks) firstBackward() int32 {
	for place, id := range t.a.Order {
		if t.a.Backward[id] {
			return int32(place)
		}
	}
	return int32(len(t.a.Order))
}

// operands fills in the uses and outputs of a task.
func (t *tasks) operands(n *graph.Node, task *remat.Task, bytes []int64) {
	for _, list := range [][]graph.ValueID{n.Inputs, n.Captures()} {
		for _, v := range list {
			if v == graph.NoValue || t.root[v] == graph.NoValue {
				continue
			}
			if u := t.value[t.root[v]]; t.stamp[u] != n.ID+1 {
				t.stamp[u] = n.ID + 1
				task.Uses = append(task.Uses, u)
			}
		}
	}
	for _, v := range n.Outputs {
		if v != graph.NoValue && t.value[v] >= 0 {
			task.Makes = append(task.Makes, t.value[v])
		}
	}
	out := n.Output(0)
	if out == graph.NoValue || t.value[out] < 0 || bytes[out] <= 0 {
		return
	}
	for _, slot := range t.sizes.InPlace(n) {
		in := n.Input(slot)
		if in == graph.NoValue || t.root[in] == graph.NoValue || bytes[t.root[in]] != bytes[out] {
			continue
		}
		if u := t.value[t.root[in]]; !slices.Contains(task.InPlace, u) {
			task.InPlace = append(task.InPlace, u)
		}
	}
}

// stepCost is the cost of a step of the unchanged graph.
func (t *tasks) stepCost() float64 {
	step := 0.0
	for i := range t.graph.Tasks {
		step += float64(t.graph.Tasks[i].Cost)
	}
	return step
}
