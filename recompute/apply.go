package recompute

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// Suffix ends the names of clones; further copies get Suffix_2, Suffix_3 ….
const Suffix = "_recompute"

// Options of Apply.
type Options struct {
	// Seed determines the seeds of random nodes without a seed of their own.
	Seed int64
	// Anchors, as package planner chose them, are written in the order of their places. Nil means
	// that the graph gets no anchors.
	Anchors []Anchor
	// Guard adds nodes that keep stock ONNX Runtime's optimizations and kernels from changing the
	// rewritten graph's numbers, at any level of optimization. Graphs with a YieldOp get no guards,
	// because stock ONNX Runtime does not run them.
	Guard bool
	// Release adds a Shape node behind each output that no node reads, unless it is known to be small: ONNX Runtime
	// frees a value behind its last reader, and one without readers at the end of a step.
	Release bool
}

// Rewritten is the outcome of Apply.
type Rewritten struct {
	Model *graph.Model
	// Origin maps every node of the new graph to its node in the old one, or to its original if it
	// is a clone; nodes of anchors and guards to NoNode. An Identity that copies a sink of an
	// anchor to a graph output is left out: its input takes its name.
	Origin []graph.NodeID
	// Clones counts the recomputed nodes.
	Clones int
	// AnchorNodes counts the nodes that anchors are made of.
	AnchorNodes int
	// GuardNodes counts the nodes that guards are made of.
	GuardNodes int
	// ReleaseNodes counts the nodes that free outputs without readers.
	ReleaseNodes int
	// Boundary is the boundary in the new graph.
	Boundary live.Boundary
	// Seeded lists the old nodes that were given a seed.
	Seeded []graph.NodeID
}

// Apply returns a copy of the model with the placements' nodes recomputed and every backward node
// reading the newest clone made before it. The nodes stand in order of execution. The model itself
// is not changed.
//
// Random nodes without a seed are given one before they are cloned, so that the clone repeats the
// draw of the original; so are those that compute parts of others (op.Draws). The result is a valid
// graph; the error names a placement that cannot be applied.
func Apply(
	m *graph.Model, b live.Boundary, order graph.Order, placements []Placement, opts Options,
) (*Rewritten, error) {
	if err := order.Check(m.Graph); err != nil {
		return nil, err
	}
	backward := live.Split(m.Graph, b, order)
	placements, err := Arrange(m.Graph, order, backward, placements)
	if err != nil {
		return nil, err
	}
	r := &rewriter{old: m.Graph, backward: backward, opts: opts, out: &Rewritten{Model: m.Clone()},
		copies: make([]int, len(m.Graph.Nodes)), guards: map[*graph.Node]bool{}}
	r.opts.Guard = opts.Guard && b.Kind != live.YieldBoundary && r.out.Model.OpsetVersion("") >= MinAnchorOpset
	r.g, r.names = r.out.Model.Graph, graph.NewNames(m)
	r.versions = m.Opsets
	r.newest.Reset(len(m.Graph.Values))
	r.views.Reset(len(m.Graph.Values))
	if err := r.fixParts(); err != nil {
		return nil, err
	}
	if err := r.rewrite(order, placements); err != nil {
		return nil, err
	}
	r.out.Boundary = r.boundary(b)
	err = graph.Verify(r.out.Model)
	if err == nil {
		err = graph.NewNames(m).Verify(r.out.Model)
	}
	if err != nil {
		return nil, fmt.Errorf("the rewritten graph is invalid: %w", err)
	}
	return r.out, nil
}

// boundary finds a boundary of the old graph in the new one. Clones are backward nodes.
func (r *rewriter) boundary(b live.Boundary) live.Boundary {
	out := b
	out.Node, out.Backward = graph.NoNode, graph.NoNode
	seen := make([]bool, len(r.old.Nodes))
	for i, origin := range r.out.Origin {
		if origin == graph.NoNode {
			if r.guards[r.g.Nodes[i]] {
				continue
			}
			if b.Backward != graph.NoNode && out.Backward == graph.NoNode {
				out.Backward = graph.NodeID(i)
			}
			continue
		}
		clone := seen[origin]
		seen[origin] = true
		if origin == b.Node && !clone {
			out.Node = graph.NodeID(i)
		}
		if b.Backward != graph.NoNode && out.Backward == graph.NoNode && (clone || r.backward[origin]) {
			out.Backward = graph.NodeID(i)
		}
	}
	return out
}

type rewriter struct {
	old      *graph.Graph
	g        *graph.Graph // the copy that is edited
	names    *graph.Names
	versions []graph.Opset
	backward []bool
	opts     Options
	out      *Rewritten
	newest   Versions // of the old values
	views    Versions // of the old values, clones left out: for forward nodes
	copies   []int    // by old node: how often it was cloned
	guards   map[*graph.Node]bool
}

func (r *rewriter) rewrite(order graph.Order, placements []Placement) error {
	sink := &graphSink{rewriter: r, anchors: r.opts.Anchors, writer: newAnchorWriter(r, r.out.Model.OpsetVersion("")),
		nodes: make([]*graph.Node, 0, len(order)+len(placements))}
	if err := Emit(order, placements, sink); err != nil {
		return err
	}
	if len(sink.anchors) > 0 {
		return fmt.Errorf("%w: anchors are out of order at the one before %q",
			ErrPlacement, r.old.NodeLabel(sink.anchors[0].Before))
	}
	nodes := sink.foldCopies()
	if r.opts.Guard {
		var err error
		if nodes, err = r.guarded(nodes); err != nil {
			return fmt.Errorf("guards: %w", err)
		}
	}
	if r.opts.Release {
		nodes = r.released(nodes)
	}
	r.g.SetNodes(nodes)
	if len(r.opts.Anchors) > 0 {
		if err := graph.FileOrder(r.g).Check(r.g); err != nil {
			return fmt.Errorf("%w: an anchor stands before a value that it waits for: %w", ErrPlacement, err)
		}
		r.loosen()
	}
	return nil
}

// graphSink is the sink of a rewrite that makes the nodes of a graph.
type graphSink struct {
	*rewriter
	writer  *anchorWriter
	anchors []Anchor // that have not been written yet
	nodes   []*graph.Node
}

// Arrive writes the anchors before a node.
func (s *graphSink) Arrive(id graph.NodeID) error {
	for ; len(s.anchors) > 0 && s.anchors[0].Before == id; s.anchors = s.anchors[1:] {
		written, err := s.writer.write(&s.anchors[0])
		if err != nil {
			return fmt.Errorf("anchor before %q: %w", s.old.NodeLabel(id), err)
		}
		s.nodes = s.anchored(s.nodes, written)
	}
	return nil
}

// Clone appends a clone of a node.
func (s *graphSink) Clone(id graph.NodeID, _ int32, p *Placement) error {
	n, err := s.clone(id)
	if err != nil {
		return fmt.Errorf("placement of %q before %q: %w", s.old.Values[p.Value].Name, s.old.NodeLabel(p.Before), err)
	}
	s.out.Clones++
	s.append(n, id)
	s.nodes = s.anchored(s.nodes, s.writer.follow(id))
	return nil
}

// Keep appends a node of the graph itself.
func (s *graphSink) Keep(id graph.NodeID, _ int32) {
	n := s.g.Nodes[id]
	if s.backward[id] {
		n.Inputs = s.newest.Rewire(n.Inputs, len(n.Inputs))
	} else {
		n.Inputs = s.views.Rewire(n.Inputs, len(n.Inputs))
	}
	s.append(n, id)
	s.nodes = s.anchored(s.nodes, s.writer.follow(id))
}

func (s *graphSink) append(n *graph.Node, origin graph.NodeID) {
	s.nodes = append(s.nodes, n)
	s.out.Origin = append(s.out.Origin, origin)
}

// anchored appends nodes that anchors are made of.
func (r *rewriter) anchored(nodes, written []*graph.Node) []*graph.Node {
	for range written {
		r.out.Origin = append(r.out.Origin, graph.NoNode)
	}
	r.out.AnchorNodes += len(written)
	return append(nodes, written...)
}

// clone returns a clone of an old node that reads the newest clones of its inputs.
func (r *rewriter) clone(id graph.NodeID) (*graph.Node, error) {
	old := r.old.Nodes[id]
	info := op.Of(old.Kind)
	if info.Random {
		if err := r.fixSeed(id); err != nil {
			return nil, err
		}
	}
	r.copies[id]++
	suffix := suffixOf(r.copies[id])
	src := r.g.Nodes[id] // the copy, which may have a seed now
	n := &graph.Node{Name: r.names.Node(r.cloneName(old, suffix)), Op: src.Op, Domain: src.Domain, Kind: src.Kind,
		Version: src.Version,
		Inputs:  slices.Clone(r.newest.Rewire(old.Inputs, len(old.Inputs))), Attrs: slices.Clone(src.Attrs)}
	rare := src.Rare()
	n.SetRare(graph.Rare{Overload: rare.Overload, Doc: "Recompute of " + r.old.NodeLabel(id),
		Metadata: slices.Clone(rare.Metadata), Devices: rare.Devices, Extra: rare.Extra})
	for _, v := range old.Outputs {
		out, err := r.cloneValue(v, suffix)
		if err != nil {
			return nil, err
		}
		n.Outputs = append(n.Outputs, out)
	}
	for slot, v := range old.Outputs {
		if v != graph.NoValue && !(r.opts.Guard && info.Updated(slot)) {
			r.newest.Set(v, n.Outputs[slot])
		}
	}
	return n, nil
}

// cloneName names a clone after its node, or after its first output where the node has no
// name.
func (r *rewriter) cloneName(old *graph.Node, suffix string) string {
	if old.Name != "" {
		return old.Name + suffix
	}
	return r.old.ValueName(old.Output(0)) + suffix
}

// CloneName is the name of a clone's output in a rewritten graph, if no other value has the name:
// that of the original with Suffix, and a number from the second clone on. copy 0 is the original.
func CloneName(name string, copy int) string {
	if copy == 0 {
		return name
	}
	return name + suffixOf(copy)
}

func suffixOf(copies int) string {
	if copies == 1 {
		return Suffix
	}
	return fmt.Sprintf("%s_%d", Suffix, copies)
}

// cloneValue adds the value that a clone makes in place of v, with a value_info entry.
func (r *rewriter) cloneValue(v graph.ValueID, suffix string) (graph.ValueID, error) {
	if v == graph.NoValue {
		return graph.NoValue, nil
	}
	name := r.old.Values[v].Name + suffix
	if !r.names.TakeValue(name) {
		return graph.NoValue,
			fmt.Errorf("value %q exists already; was this graph rewritten before? start from the original", name)
	}
	id := r.g.Value(name)
	t := r.old.Values[v].Type
	r.g.Values[id].Type = t
	if t.Form == graph.FormTensor && t.DType != graph.Undefined {
		r.g.ValueInfo = append(r.g.ValueInfo, graph.Decl{Value: id, Type: t})
	}
	return id, nil
}
