package live

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// Program is an execution as the memory model sees it: steps in order, each with the values that it
// reads and writes. The planner makes programs for plans whose graph is not written yet: a
// recomputed value gets an ID behind those of the graph.
type Program struct {
	Steps      []Step
	Bytes      []int64         // by value: Unsized where unknown
	Persistent []bool          // by value: live throughout, counted apart
	Outputs    []graph.ValueID // live to the end once made
	States     []State         // whose outputs are inputs of the next step
	// Hidden is bytes that are taken throughout and belong to no value.
	Hidden int64
}

// Memory says where a step's first output lies.
type Memory uint8

const (
	// AsKind leaves it to the op table.
	AsKind Memory = iota
	// Aliasing is in the memory of the first input.
	Aliasing
	// Owning is in memory of its own.
	Owning
)

// Step is one execution of a node.
type Step struct {
	In    []graph.ValueID // captured values behind the inputs
	Out   []graph.ValueID
	Inner int64 // bytes live inside the node's subgraphs at their worst step
	Node  graph.NodeID
	Kind  graph.Kind
	// Slices says which operands are parts of which; nil means that no operand is a part.
	Slices *Slices
	Fails  op.Failure // whether it may fail by data
	// Memory overrides the op table on views and writing in place.
	Memory Memory
}

// NewProgram returns the program of a graph executed in an order. It shares the operand
// lists of the nodes.
func NewProgram(g *graph.Graph, order graph.Order, sizes *Sizes) *Program {
	p := &Program{Steps: make([]Step, len(order)), Bytes: sizes.Bytes, Persistent: make([]bool, len(g.Values)),
		States: sizes.States}
	for i := range g.Values {
		p.Persistent[i] = Persistent(g, graph.ValueID(i))
	}
	for i, id := range order {
		p.Steps[i] = NewStep(g, id, sizes)
	}
	for _, d := range g.Outputs {
		p.Outputs = append(p.Outputs, d.Value)
	}
	return p
}

// NewStep returns the step that executes a node as it stands in the graph.
func NewStep(g *graph.Graph, id graph.NodeID, sizes *Sizes) Step {
	n := g.Nodes[id]
	s := Step{Node: id, Kind: n.Kind, In: n.Inputs, Out: n.Outputs}
	if len(n.Captures()) > 0 {
		s.In = append(append(make([]graph.ValueID, 0, len(n.Inputs)+len(n.Captures())), n.Inputs...), n.Captures()...)
	}
	if sizes.Inner != nil {
		s.Inner = sizes.Inner[id]
	}
	if sizes.Slices != nil && sizes.Aliased == nil {
		s.Slices = sizes.Slices[id]
	}
	if sizes.Failures != nil {
		s.Fails = sizes.Failures[id]
	}
	if sizes.Aliased != nil {
		if s.Memory = Owning; sizes.Aliased[id] {
			s.Memory = Aliasing
		}
	}
	return s
}

// Clone returns a copy whose steps and values can be changed; operands are shared.
func (p *Program) Clone() *Program {
	c := *p
	c.Steps, c.Bytes = slices.Clone(p.Steps), slices.Clone(p.Bytes)
	c.Persistent = slices.Clone(p.Persistent)
	return &c
}

// AddWorkspace makes that many bytes live while a step runs, besides its operands: as a value
// behind all others, whose ID it returns, that the step makes and no step reads. It appends to
// p.Bytes and p.Persistent.
func (p *Program) AddWorkspace(step int, bytes int64) graph.ValueID {
	id := graph.ValueID(len(p.Bytes))
	p.Bytes, p.Persistent = append(p.Bytes, bytes), append(p.Persistent, false)
	s := &p.Steps[step]
	out := slices.Clone(s.Out)
	if len(out) == 0 {
		out = append(out, graph.NoValue) // only slot 0 may be written in place
	}
	s.Out = append(out, id)
	return id
}

// view reports whether output 0 is a view of input 0.
func (s *Step) view() bool {
	return s.Memory == Aliasing || s.Memory == AsKind && op.Of(s.Kind).View
}

// inPlace lists the inputs into whose memory output 0 may be written.
func (s *Step) inPlace() []int {
	if s.Memory != AsKind {
		return nil
	}
	return op.Of(s.Kind).InPlace
}

// Input returns operand i of the step, or NoValue.
func (s *Step) Input(i int) graph.ValueID {
	if i >= len(s.In) {
		return graph.NoValue
	}
	return s.In[i]
}

// Output0 returns the step's first output, or NoValue.
func (s *Step) Output0() graph.ValueID {
	if len(s.Out) == 0 {
		return graph.NoValue
	}
	return s.Out[0]
}

// viewSource returns the value that output 0 is a view of, or NoValue.
func (s *Step) viewSource() graph.ValueID {
	if s.view() {
		return s.Input(0)
	}
	return graph.NoValue
}

// Traffic returns the bytes that the step reads and writes; 0 for a view.
func (s *Step) Traffic(sizes *Sizes) int64 {
	if s.view() {
		return 0
	}
	var total int64
	for _, list := range [][]graph.ValueID{s.In, s.Out} {
		for _, v := range list {
			if v != graph.NoValue {
				total = addSat(total, max(sizes.Bytes[v], 0))
			}
		}
	}
	return total
}
