package parallel

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"memopt"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// chunk is the graph of one chunk of layers for one micro-batch.
type chunk struct {
	model  *memopt.Model
	params []graph.ValueID // that its forward nodes read; IDs are those of the whole graph
	gather int64           // the largest gathered operands of a node
	// received are the values that come from other stages: activations from the one before, gradients
	// from the one behind.
	received  []graph.ValueID
	inputs    []graph.ValueID // received values, and data
	gradient  []graph.ValueID // received values that backward nodes make
	constants int64           // bytes
}

// extractor cuts the graphs of chunks out of the graph of a micro-step.
type extractor struct {
	step   *memopt.Model
	order  graph.Order
	back   []bool
	stages *stages
	params []bool // by value
	dims   [][]int64
	tied   []bool // by value: a parameter that several stages read
	gather []int64
	states []live.StatePair
	sums   []graph.ValueID // by value: the state that it is the next value of so far, or NoValue
}

func newExtractor(step *memopt.Model, d *divider, order graph.Order, s *stages) (*extractor, error) {
	if len(step.Types.Bodies) > 0 {
		return nil, &StageError{errors.New("a model with control flow cannot be cut into stages")}
	}
	x := &extractor{step: step, order: order, back: d.back, stages: s, params: d.param, dims: d.dims, gather: d.gather}
	var err error
	if x.states, err = live.Pairs(step.Model); err != nil {
		return nil, err
	}
	x.followStates()
	x.findTied()
	return x, nil
}

// followStates finds the values that become the next values of states, through chains of additions to
// a sum.
func (x *extractor) followStates() {
	g := x.step.Graph
	x.sums = make([]graph.ValueID, len(g.Values))
	for v := range x.sums {
		x.sums[v] = graph.NoValue
	}
	for _, p := range x.states {
		out, ok := g.Lookup(p.Output)
		in, known := g.Lookup(p.Input)
		if !ok || !known {
			continue
		}
		for _, v := range x.chain(in, out) {
			x.sums[v] = in
		}
	}
}

// chain lists the values from the next value of a state back to the one made of the state itself,
// each made of the one before it as its first input; nil if there is no such chain.
func (x *extractor) chain(in, out graph.ValueID) (list []graph.ValueID) {
	g := x.step.Graph
	for v := out; g.Values[v].Def != graph.NoNode; {
		n := g.Nodes[g.Values[v].Def]
		list = append(list, v)
		if slices.Contains(n.Inputs, in) {
			return list
		}
		if v = n.Input(0); v == graph.NoValue || !slices.Equal(x.dims[v], x.dims[in]) {
			break
		}
	}
	return nil
}

// nodes lists the nodes of a chunk in order, with those of shared nodes that it needs.
func (x *extractor) nodes(k int) []*graph.Node {
	g := x.step.Graph
	need := make([]bool, len(g.Nodes))
	for i := len(x.order) - 1; i >= 0; i-- {
		id := x.order[i]
		if x.stages.chunk[id] == k {
			need[id] = true
		}
		if !need[id] {
			continue
		}
		g.EachProducer(id, func(p graph.NodeID) { need[p] = need[p] || x.stages.chunk[p] == shared })
	}
	var list []*graph.Node
	for _, id := range x.order {
		if need[id] {
			n := *g.Nodes[id]
			n.Inputs = slices.Clone(n.Inputs)
			list = append(list, &n)
		}
	}
	return list
}

// extract cuts out a chunk.
func (x *extractor) extract(k int) (*chunk, error) {
	old := x.step.Graph
	nodes := x.nodes(k)
	c := &chunk{}
	m := x.step.Model.Clone()
	m.Path = fmt.Sprintf("%s (stage %d)", x.step.Path, k)
	g := m.Graph
	last, first := -1, -1
	for i, n := range nodes {
		if x.back[n.ID] && first < 0 {
			first = i
		} else if !x.back[n.ID] {
			last = i
			c.addParams(old, n, x.params)
		}
		c.gather = max(c.gather, x.gather[n.ID])
	}
	if last < 0 || first < 0 {
		return nil, &StageError{fmt.Errorf("stage %d (%s) has no nodes in the forward or in the backward half: "+
			"take fewer stages", k, x.stages.names[k])}
	}
	g.SetNodes(nodes)
	pairs := x.connect(g, c, k)
	if err := x.prune(g); err != nil {
		return nil, err
	}
	live.RecordStates(m, pairs)
	if err := keepWatched(m); err != nil {
		return nil, err
	}
	if err := mark(m, last, first); err != nil {
		return nil, err
	}
	types := &op.Result{}
	*types = *x.step.Types
	types.NoRow, types.Deviations = nil, nil
	c.model = &memopt.Model{Model: m, Types: types, Dims: maps.Clone(x.step.Dims),
		StructureSHA256: x.step.StructureSHA256}
	return c, nil
}

// addParams adds the parameters that a forward node reads.
func (c *chunk) addParams(g *graph.Graph, n *graph.Node, param []bool) {
	for _, v := range n.Inputs {
		if v != graph.NoValue && param[v] && !slices.Contains(c.params, v) {
			c.params = append(c.params, v)
		}
	}
}

// connect makes inputs of the outputs of other stages, and returns the states of the chunk: a sum of
// gradients over several stages has a part on each of them.
func (x *extractor) connect(g *graph.Graph, c *chunk, k int) []live.StatePair {
	old := x.step.Graph
	ends := map[graph.ValueID]graph.ValueID{} // by state, which of its values is the chunk's last
	var states []graph.ValueID
	for _, n := range g.Nodes {
		for i, v := range slices.Clone(n.Inputs) {
			if v == graph.NoValue || g.Values[v].Def != graph.NoNode || old.Values[v].Def == graph.NoNode {
				continue
			}
			if sum := x.sums[v]; sum != graph.NoValue {
				n.Inputs[i] = sum
				continue
			}
			if x.ofTied(n, v) {
				continue
			}
			if !slices.Contains(c.received, v) {
				c.received = append(c.received, v)
				if x.back[old.Values[v].Def] {
					c.gradient = append(c.gradient, v)
				}
			}
		}
		for _, v := range n.Outputs {
			if v == graph.NoValue || x.sums[v] == graph.NoValue {
				continue
			}
			if _, known := ends[x.sums[v]]; !known {
				states = append(states, x.sums[v])
			}
			ends[x.sums[v]] = v
		}
	}
	for i := range g.Values {
		g.Values[i].Output = false
	}
	g.Outputs = slices.DeleteFunc(g.Outputs, func(d graph.Decl) bool {
		return g.Values[d.Value].Def == graph.NoNode || x.sums[d.Value] != graph.NoValue
	})
	var pairs []live.StatePair
	for _, in := range states {
		v := ends[in]
		g.Outputs = append(g.Outputs, graph.Decl{Value: v, Type: g.Values[v].Type})
		pairs = append(pairs, live.StatePair{Input: g.ValueName(in), Output: g.ValueName(v)})
	}
	for _, d := range g.Outputs {
		g.Values[d.Value].Output = true
	}
	for _, v := range c.received {
		g.Values[v].Input = true
		g.Inputs = append(g.Inputs, graph.Decl{Value: v, Type: g.Values[v].Type})
	}
	return pairs
}

// ofTied removes from a sum another stage's addend to the gradient of a weight that both have: each
// has a sum of its own, and an all-reduce adds these up before the update.
func (x *extractor) ofTied(n *graph.Node, v graph.ValueID) bool {
	if !adders[n.Kind] || !x.back[x.step.Graph.Values[v].Def] || !x.likeTied(v) {
		return false
	}
	n.Inputs = slices.DeleteFunc(n.Inputs, func(in graph.ValueID) bool { return in == v })
	if len(n.Inputs) == 1 {
		n.Op, n.Kind, n.Attrs = op.Of(op.Identity).Name, op.Identity, nil
	}
	return len(n.Inputs) > 0
}

// likeTied reports whether a value has the shape of a weight that several stages read.
func (x *extractor) likeTied(v graph.ValueID) bool {
	for p, tied := range x.tied {
		if tied && x.dims[v] != nil && slices.Equal(x.dims[p], x.dims[v]) {
			return true
		}
	}
	return false
}

// findTied finds the parameters that several stages read, be it through nodes that they share.
func (x *extractor) findTied() {
	g := x.step.Graph
	x.tied = make([]bool, len(g.Values))
	first := make([]int, len(g.Values))
	for k := range x.stages.names {
		for _, n := range x.nodes(k) {
			for _, v := range n.Inputs {
				if v == graph.NoValue || !x.params[v] || x.back[n.ID] {
					continue
				}
				x.tied[v] = x.tied[v] || first[v] > 0 && first[v] != k+1
				first[v] = k + 1
			}
		}
	}
}

// prune takes out the inputs and initializers that no node of the chunk reads.
func (x *extractor) prune(g *graph.Graph) error {
	read := make([]bool, len(g.Values))
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if v != graph.NoValue {
				read[v] = true
			}
		}
	}
	g.Inputs = slices.DeleteFunc(g.Inputs, func(d graph.Decl) bool {
		if !read[d.Value] {
			g.Values[d.Value].Input = false
		}
		return !read[d.Value]
	})
	gone := func(v graph.ValueID) bool {
		if !read[v] {
			g.Values[v].Data, g.Values[v].SparseData = nil, nil
		}
		return !read[v]
	}
	g.Initializers = slices.DeleteFunc(g.Initializers, gone)
	g.Sparse = slices.DeleteFunc(g.Sparse, gone)
	g.ValueInfo = nil
	return graph.VerifyGraph(g)
}

// keepWatched has those values watched that the chunk makes.
func keepWatched(m *graph.Model) error {
	names, err := op.RecordedWatched(m)
	if err != nil || names == nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		v, ok := m.Graph.Lookup(name)
		return !ok || m.Graph.Values[v].Def == graph.NoNode
	})
	op.RecordWatch(m, names)
	return nil
}

// mark records where the halves of a chunk meet.
func mark(m *graph.Model, last, first int) error {
	g := m.Graph
	out := graph.NoValue
	for _, v := range g.Nodes[last].Outputs {
		if v != graph.NoValue {
			out = v
			break
		}
	}
	if b, err := live.FindBoundary(m); err == nil && b.Kind == live.YieldBoundary {
		return nil
	}
	if out == graph.NoValue {
		return &StageError{fmt.Errorf("node %q makes no value", g.NodeLabel(graph.NodeID(last)))}
	}
	b := live.Boundary{Kind: live.RecordedBoundary, Node: graph.NodeID(last), Loss: out,
		Backward: graph.NodeID(first)}
	m.SetMeta(live.BoundaryKey, b.Record(g))
	return nil
}

// adders add up any number of inputs.
var adders = [op.NumKinds]bool{op.Add: true, op.Sum: true}
