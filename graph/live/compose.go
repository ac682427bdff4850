package live

import (
	"slices"

	"memopt/graph"
)

// Parts divides the bytes that are live at one step by their content. Every live byte is in one of
// them.
type Parts struct {
	Weights     int64 // and all else that is persistent: inputs of the step and constants
	State       int64 // of the optimizer
	Gradients   int64 // of parameters
	Activations int64 // stashed: made by forward nodes, or by their clones, for backward nodes
	// Temporaries are all other values, such as gradients of activations, outputs, and values that
	// only the forward half needs; and bytes outside all values (Program.Hidden).
	Temporaries int64
	Workspace   int64 // of kernels
	Inner       int64 // inside the subgraphs of the node that runs
}

// PersistentParts divides PersistentBytes, which are live throughout, by their content.
func PersistentParts(g *graph.Graph, s *Sizes, roles *Roles) (p Parts) {
	for i := range g.Values {
		n := persistentBytes(g, s, graph.ValueID(i))
		switch {
		case roles.State[i]:
			p.State += n
		case roles.Gradient[i]:
			p.Gradients += n
		default:
			p.Weights += n
		}
	}
	return p
}

// Sum is the bytes of all parts.
func (p *Parts) Sum() int64 {
	return p.Weights + p.State + p.Gradients + p.Activations + p.Temporaries + p.Workspace + p.Inner
}

// Phase is a part of a training step.
type Phase int

// The phases of a step. Where updates run as soon as they can, they run among the nodes of the
// backward half; clones belong to it.
const (
	ForwardPhase Phase = iota
	BackwardPhase
	UpdatePhase
	NumPhases
)

// Moment is a step of an execution with its live bytes, persistent ones included.
type Moment struct {
	Step  int // place in the order; -1 for a phase without steps
	Node  graph.NodeID
	Parts Parts
}

// Composition divides the peak of memory by content: that of a whole step, and that of each of its
// phases.
type Composition struct {
	Peak   Moment
	Phases [NumPhases]Moment // Step is -1 for a phase without nodes
}

// composer sums up the parts of a program.
type composer struct {
	g        *graph.Graph
	p        *Program
	t        *Timeline
	roles    *Roles
	backward []bool
	source   []graph.ValueID // by value: the value that it shows
	kind     []valueKind     // by value that shows no other
	// holds has the values that lie in each root's buffer, the youngest last. Those that a younger one
	// lies over whole are left out.
	holds [][]graph.ValueID
}

// valueKind is a set of properties of a value.
type valueKind uint8

const (
	fromForward  valueKind = 1 << iota // made by a node of the forward half, in that half
	fromClone                          // made by a clone of such a node
	readBehind                         // read in the backward half, be it by a clone
	readBackward                       // read by a backward node
	isGradient
	isWorkspace
)

// Compose returns the composition of the peaks of a simulated program of a graph: t must be of p,
// which may have clones and workspaces. always are the persistent bytes.
func Compose(g *graph.Graph, p *Program, t *Timeline, roles *Roles, backward []bool, always Parts) *Composition {
	c := newComposer(g, p, t, roles, backward)
	phases := c.classify()
	out := c.worst(phases)
	for i := range p.Steps {
		c.place(&p.Steps[i])
		for ph := range out.Phases {
			if m := &out.Phases[ph]; m.Step == i {
				m.Parts = always
				c.sum(m)
			}
		}
	}
	for _, m := range out.Phases {
		if m.Step == t.Peak.Step && m.Step >= 0 {
			out.Peak = m
		}
	}
	return out
}

func newComposer(g *graph.Graph, p *Program, t *Timeline, roles *Roles, backward []bool) *composer {
	return &composer{g: g, p: p, t: t, roles: roles, backward: backward,
		source: make([]graph.ValueID, len(p.Bytes)), kind: make([]valueKind, len(p.Bytes)),
		holds: make([][]graph.ValueID, len(p.Bytes))}
}

// worst finds the worst step of each phase.
func (c *composer) worst(phases []Phase) *Composition {
	out := &Composition{Peak: Moment{Step: -1, Node: graph.NoNode}}
	for ph := range out.Phases {
		out.Phases[ph] = out.Peak
	}
	for i, ph := range phases {
		if m := &out.Phases[ph]; m.Step < 0 || c.t.Live[i] > c.t.Live[m.Step] {
			m.Step, m.Node = i, c.p.Steps[i].Node
		}
	}
	return out
}

// classify determines the kinds of a program's values, and returns the phase of each step.
func (c *composer) classify() []Phase {
	for v := range c.source {
		c.source[v] = graph.ValueID(v)
	}
	phases, ran := make([]Phase, len(c.p.Steps)), make([]bool, len(c.g.Nodes))
	for i := range c.p.Steps {
		s := &c.p.Steps[i]
		made := fromForward
		switch {
		case c.backward[s.Node]:
			made, phases[i] = 0, BackwardPhase
			if c.roles.Update[s.Node] {
				phases[i] = UpdatePhase
			}
		case ran[s.Node]:
			made, phases[i] = fromClone, BackwardPhase
		}
		ran[s.Node] = true
		c.reads(s, phases[i])
		c.makes(s, made)
	}
	return phases
}

// reads notes the values that a step of a phase reads.
func (c *composer) reads(s *Step, ph Phase) {
	if ph == ForwardPhase {
		return
	}
	kind := readBehind
	if c.backward[s.Node] {
		kind |= readBackward
	}
	for _, v := range s.In {
		if v != graph.NoValue {
			c.kind[c.source[v]] |= kind
		}
	}
}

// makes notes the values that a step makes.
func (c *composer) makes(s *Step, made valueKind) {
	src, outputs := s.viewSource(), c.g.Nodes[s.Node].Outputs
	for slot, v := range s.Out {
		if v == graph.NoValue {
			continue
		}
		if slot == 0 && src != graph.NoValue {
			c.source[v] = c.source[src]
		}
		kind := made
		switch {
		case slot >= len(outputs) || outputs[slot] == graph.NoValue:
			kind = isWorkspace
		case c.roles.Gradient[outputs[slot]]:
			kind |= isGradient
		}
		if c.source[v] != v {
			kind &= isGradient // the value that it shows was made before
		}
		c.kind[c.source[v]] |= kind
	}
}

// place notes which values a step puts into buffers.
func (c *composer) place(s *Step) {
	for _, v := range s.Out {
		if v == graph.NoValue || c.source[v] != v || c.t.Root[v] == graph.NoValue {
			continue
		}
		root := c.t.Root[v]
		if c.p.Bytes[v] == c.p.Bytes[root] {
			c.holds[root] = c.holds[root][:0]
		}
		c.holds[root] = append(c.holds[root], v)
	}
}

// sum adds the bytes live at a moment to its parts, each by its content at that moment.
func (c *composer) sum(m *Moment) {
	m.Parts.Temporaries += c.t.Hidden
	m.Parts.Inner += c.p.Steps[m.Step].Inner
	at := int32(m.Step)
	for v, root := range c.t.Root {
		if graph.ValueID(v) != root || c.t.Ranges[v].Start > at || c.t.Ranges[v].End <= at {
			continue
		}
		c.buffer(root, func(v graph.ValueID, bytes int64) {
			if v == graph.NoValue {
				m.Parts.Temporaries += bytes
			} else {
				*m.Parts.live(c.kind[v]) += bytes
			}
		})
	}
}

// gap is a run of bytes of a buffer.
type gap struct{ lo, hi int64 }

// buffer calls holds for the contents of a root's buffer: for each byte the youngest value there,
// or NoValue before any value lies there. A value may be reported several times.
func (c *composer) buffer(root graph.ValueID, holds func(v graph.ValueID, bytes int64)) {
	gaps := []gap{{0, max(c.p.Bytes[root], 0)}}
	for _, v := range slices.Backward(c.holds[root]) {
		lo := c.t.Begin(v)
		hi := lo + max(c.p.Bytes[v], 0)
		var left []gap
		for _, g := range gaps {
			from, to := max(lo, g.lo), min(hi, g.hi)
			if from >= to {
				left = append(left, g)
				continue
			}
			holds(v, to-from)
			if g.lo < from {
				left = append(left, gap{g.lo, from})
			}
			if to < g.hi {
				left = append(left, gap{to, g.hi})
			}
		}
		gaps = left
	}
	for _, g := range gaps {
		holds(graph.NoValue, g.hi-g.lo)
	}
}

// live is the part of a value of a kind.
func (p *Parts) live(k valueKind) *int64 {
	switch {
	case k&isWorkspace != 0:
		return &p.Workspace
	case k&isGradient != 0:
		return &p.Gradients
	case k&fromForward != 0 && k&readBehind != 0, k&fromClone != 0 && k&readBackward != 0:
		return &p.Activations
	}
	return &p.Temporaries
}
