package ortengine

import (
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/executor/ort"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// bound is a model as the runtime gets it, with outputs that are bound to buffers of states.
type bound struct {
	model   *graph.Model
	states  []ort.State
	outputs []graph.ValueID             // those of states
	begin   map[string]*executor.Tensor // first values of initializers that are states
	facts   *verify.RuntimeStates       // nil without states
}

// bind prepares a model for steps that go on with the states of the step before. Initializers that
// are states become inputs, because the runtime never changes an initializer; copies to outputs are
// removed, so that the producer of the copied value writes the buffer; and a node that overwrites
// an input and could run before a reader of it is made to wait. The numbers stay the same. A model
// without states and shared inputs, which lose their defaults, is returned unchanged.
func bind(m *graph.Model, dims symbolic.Env, shared ...graph.ValueID) (*bound, error) {
	b := &bound{model: m, begin: map[string]*executor.Tensor{}}
	states, err := live.FindStates(m)
	if err != nil {
		return nil, err
	}
	states = slices.DeleteFunc(slices.Clone(states), func(s live.State) bool {
		return m.Graph.Values[s.In].SparseData != nil || !ort.Exchangeable(m.Graph.Values[s.In].Type.DType)
	})
	if len(states) == 0 && len(shared) == 0 {
		return b, nil
	}
	b.model = m.Clone()
	g := b.model.Graph
	for _, v := range shared {
		if err := b.promote(v, dims); err != nil {
			return nil, err
		}
	}
	if len(states) == 0 {
		return b, nil
	}
	writeOutputs(g)
	for _, s := range states {
		if err := b.promote(s.In, dims); err != nil {
			return nil, err
		}
	}
	sizes, err := live.EvalRunSizes(g, dims)
	if err != nil {
		return nil, err
	}
	plan := ortsim.StateBuffers(g, states, sizes.Bytes)
	before := len(g.Nodes)
	if err := hold(b.model, plan); err != nil {
		return nil, err
	}
	b.describe(plan, sizes.Bytes)
	b.facts.Waiting = len(g.Nodes) - before
	return b, graph.VerifyGraph(g)
}

// writeOutputs removes copies of values to graph outputs: the producer of the value makes the
// output. The runtime does so itself if the copy is the only reader.
func writeOutputs(g *graph.Graph) {
	as := make([]graph.ValueID, len(g.Values))
	for v := range as {
		as[v] = graph.ValueID(v)
	}
	for _, n := range g.Nodes {
		for _, v := range n.Captures() {
			as[v] = graph.NoValue // subgraphs know it by its name
		}
	}
	gone := make([]bool, len(g.Nodes))
	for _, d := range g.Outputs {
		def := g.Values[d.Value].Def
		if def == graph.NoNode || !ortsim.Copies(g.Nodes[def].Kind) {
			continue
		}
		in := g.Nodes[def].Input(0)
		if in != graph.NoValue && as[in] == in && g.Values[in].Def != graph.NoNode && !g.Values[in].Output {
			as[in], gone[def] = d.Value, true
		}
	}
	var nodes []*graph.Node
	for i, n := range g.Nodes {
		if gone[i] {
			continue
		}
		for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
			for slot, v := range list {
				if v != graph.NoValue && as[v] != graph.NoValue {
					list[slot] = as[v]
				}
			}
		}
		nodes = append(nodes, n)
	}
	g.ValueInfo = slices.DeleteFunc(g.ValueInfo, func(d graph.Decl) bool {
		return as[d.Value] != graph.NoValue && as[d.Value] != d.Value
	})
	g.SetNodes(nodes)
}

// promote makes an input of an initializer that is a state, with its first value.
func (b *bound) promote(in graph.ValueID, dims symbolic.Env) error {
	g := b.model.Graph
	v := &g.Values[in]
	if v.Data == nil {
		return nil
	}
	raw, err := v.Data.Source.Bytes()
	if err != nil {
		return fmt.Errorf("initializer %q: %w", v.Name, err)
	}
	t := &executor.Tensor{DType: v.Data.DType, Data: raw}
	for _, d := range v.Data.Dims {
		t.Shape = append(t.Shape, int(d))
	}
	b.begin[v.Name] = t
	v.Data = nil
	g.Initializers = slices.DeleteFunc(g.Initializers, func(id graph.ValueID) bool { return id == in })
	if v.Input {
		return nil
	}
	return g.AddInput(graph.Decl{Value: in, Type: v.Type})
}

// describe lists the states for the runtime and for reports.
func (b *bound) describe(plan []ortsim.StateBuffer, bytes []int64) {
	b.facts = &verify.RuntimeStates{}
	largest := int64(-1)
	for i := range plan {
		s := &plan[i]
		in := b.model.Graph.ValueName(s.In)
		b.states = append(b.states, ort.State{Input: in, Output: b.model.Graph.ValueName(s.Out), InPlace: s.InPlace})
		b.outputs = append(b.outputs, s.Out)
		n := max(bytes[s.In], 0)
		if s.InPlace {
			b.facts.InPlace++
			b.facts.InPlaceBytes += n
			continue
		}
		b.facts.Second++
		b.facts.SecondBytes += n
		if n > largest {
			largest, b.facts.Input, b.facts.Why = n, in, s.Why
		}
	}
}

// inputs lists the runtime's inputs: the available inputs of a side, in the model's order, and
// first values of states that are initializers there.
func (b *bound) inputs(side verify.Side, given map[string]*executor.Tensor) []ort.Named {
	list := Inputs(side, given)
	for _, s := range b.states {
		if t := b.begin[s.Input]; t != nil && given[s.Input] == nil {
			list = append(list, ort.Named{Name: s.Input, Tensor: t})
		}
	}
	return list
}

// hold puts nodes in front of writers that have to wait: anchors that each hold one operand back. A
// state whose writer cannot be held is no longer in place.
func hold(m *graph.Model, plan []ortsim.StateBuffer) error {
	w := &waits{g: m.Graph, names: graph.NewNames(m), before: make([][]*graph.Node, len(m.Graph.Nodes)),
		numbers: map[string]graph.ValueID{}}
	emitter := recompute.NewAnchorEmitter(m.Graph, m.OpsetVersion(""), w)
	for i := range plan {
		b := &plan[i]
		if len(b.Sinks) == 0 {
			continue
		}
		if m.OpsetVersion("") < recompute.MinAnchorOpset {
			b.InPlace = false
			b.Why = fmt.Sprintf("node %q would have to wait for readers of the old value, for which the model needs "+
				"operator set %d", m.Graph.NodeLabel(b.Writer), recompute.MinAnchorOpset)
			continue
		}
		emitter.Reset(w)
		w.writer = b.Writer
		if err := emitter.Emit(b.Sinks, []graph.ValueID{b.Held}, nil); err != nil {
			return err
		}
		n := m.Graph.Nodes[b.Writer]
		for slot, v := range n.Inputs {
			if v == b.Held {
				n.Inputs[slot] = w.view
			}
		}
	}
	return w.insert()
}

// waits is the sink of the edges that make writers wait.
type waits struct {
	g       *graph.Graph
	names   *graph.Names
	writer  graph.NodeID
	before  [][]*graph.Node // by node of the graph: nodes that stand before it
	consts  []*graph.Node
	numbers map[string]graph.ValueID // constants by name
	view    graph.ValueID            // the operand as the writer reads it
}

// Origin returns the value itself: the graph has no clones here.
func (*waits) Origin(v graph.ValueID) graph.ValueID { return v }

// Newest returns the value itself.
func (*waits) Newest(v graph.ValueID) graph.ValueID { return v }

// SetNewest notes the view of the operand that is held back.
func (w *waits) SetNewest(_, view graph.ValueID) { w.view = view }

// Itself reports that values are read as they are.
func (*waits) Itself(graph.ValueID) bool { return true }

// Constant returns a constant of int64 numbers.
func (w *waits) Constant(name string, numbers ...int64) (graph.ValueID, error) {
	if v, ok := w.numbers[name]; ok {
		return v, nil
	}
	data := graph.Int64Tensor("", []int64{int64(len(numbers))}, numbers...)
	node := w.node(op.Constant, "memopt_wait_"+name, data.Type())
	node.SetAttr("value", data)
	w.consts = append(w.consts, node)
	w.numbers[name] = node.Outputs[0]
	return node.Outputs[0], nil
}

// Add appends a node before the writer.
func (w *waits) Add(n recompute.AnchorNode) graph.ValueID {
	var of graph.Type
	if n.View != recompute.NoView {
		of = w.g.Values[n.Of].Type
	}
	node := w.node(n.Kind, w.g.ValueName(w.g.Nodes[w.writer].Output(0))+"_wait"+n.Part, n.Type(of), n.Inputs...)
	if n.Axes != nil {
		node.SetAttr("axes", n.Axes)
	}
	w.before[w.writer] = append(w.before[w.writer], node)
	return node.Outputs[0]
}

// node makes a node with one output of a type.
func (w *waits) node(kind graph.Kind, name string, t graph.Type, inputs ...graph.ValueID) *graph.Node {
	free := name
	for i := 2; !w.names.TakeBoth(free); i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	out := w.g.Value(free)
	w.g.Values[out].Type = t
	return &graph.Node{Name: free, Op: op.Of(kind).Name, Kind: kind, Inputs: inputs, Outputs: []graph.ValueID{out}}
}

// insert puts the nodes into the graph, whose nodes stay in order but for those that wait.
func (w *waits) insert() error {
	nodes := w.consts
	for i, n := range w.g.Nodes {
		nodes = append(append(nodes, w.before[i]...), n)
	}
	w.g.SetNodes(nodes)
	order, err := graph.Topological(w.g)
	if err != nil {
		return err
	}
	sorted := make([]*graph.Node, len(nodes))
	for i, id := range order {
		sorted[i] = nodes[id]
	}
	w.g.SetNodes(sorted)
	return nil
}
