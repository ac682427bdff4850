package op

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// maxContents is the most elements of an integer tensor whose contents are carried along. Shapes
// have a handful; lists of axes, pads and scales a few more.
const maxContents = 256

// Result holds the results of inference besides the types, which it leaves in Graph.Values.
type Result struct {
	// Conflicts lists values whose declared type and inferred type contradict each other; the
	// inferred one stands.
	Conflicts []Conflict
	// NoRow lists nodes whose operator has no row in the table, or no schema in the imported
	// operator set: their outputs have the types that the file states, or are unknown.
	NoRow []graph.NodeID
	// Deviations lists nodes that deviate from the operator sets' definitions. Only InferAsIs has
	// some.
	Deviations []Deviation

	// Bodies has the results of the subgraphs of If, Loop and Scan nodes, in the order of
	// the nodes: of the branches that can be taken, and of the last run where a loop took several.
	Bodies []Body

	// Met lists pairs of sizes that operators require to be equal, or to be stretched to each other,
	// and that are different expressions: at most maxMet, without repetition. Result of a model only.
	Met [][2]symbolic.Expr

	contents sparse[[]symbolic.Expr] // nil where not carried
	dens     map[graph.ValueID]int64 // denominators of contents that have one besides 1
}

// Conflict is a value whose type in the file contradicts the inferred one.
type Conflict struct {
	Value              graph.ValueID
	Declared, Inferred graph.Type
	// Unread says that no node reads the value, and that it is no output: the file's type of it is of no
	// consequence.
	Unread bool
}

// Refuted reports whether the two differ in elements, and not only in shape, and something reads the value.
// Then the node that makes it has a Clash.
func (c *Conflict) Refuted() bool { return !c.Unread && apart(c.Declared, c.Inferred) }

// Contents returns the elements of a small tensor that inference could follow: of integers, of
// bools as 0 and 1, and of floats where all of them are whole. NoValue has no contents.
func (r *Result) Contents(id graph.ValueID) ([]symbolic.Expr, bool) {
	if id == graph.NoValue || int(id) >= len(r.contents.at) {
		return nil, false
	}
	elems := r.contents.get(id)
	if elems == nil || r.den(id) != 1 {
		return nil, false
	}
	return elems, true
}

// Infer completes the types of all values of a model's main graph and the
// subgraphs in it. It calls Bind first. The error names the first node whose inputs contradict
// its operator's definition.
func Infer(m *graph.Model) (*Result, error) { return infer(m, true) }

// InferAsIs is Infer for files as they are: a node that its operator's definition contradicts is
// read by another version of it, or in a tool's dialect, and else is opaque: its outputs have the
// types that the file states. Result.Deviations lists such nodes.
func InferAsIs(m *graph.Model) (*Result, error) { return infer(m, false) }

func infer(m *graph.Model, strict bool) (*Result, error) {
	Bind(m)
	order, err := graph.Topological(m.Graph)
	if err != nil {
		return nil, err
	}
	local := localFunctions(m)
	return inferAll(func() *inference {
		inf := newInference(m.Graph, m.Opsets, nil)
		inf.strict, inf.local = strict, local
		return inf
	}, order)
}

// inference is one walk over a graph.
type inference struct {
	g        *graph.Graph
	opsets   []graph.Opset
	versions map[string]int64
	outer    *inference
	strict   bool               // a contradiction of a definition is an error
	local    map[opKey]bool     // the model's own functions
	declared sparse[graph.Type] // the file's types of node outputs
	inputs   map[string]bool
	known    map[string]symbolic.Expr // labels' expressions, from earlier walks
	labels   map[string]symbolic.Expr // labels' expressions in this walk; unknown if two contradict each other
	careful  bool                     // see NewExtender
	res      *Result
	readErr  error // why the contents of an initializer could not be read
	terms    *int  // of large expressions so far, of the outermost walk and all in it; nil until there are any
	// Nodes of bodies that may still be inferred, of the outermost walk and all in it; nil until
	// there is one.
	purse  *int
	ctx    Ctx    // of the node at hand
	bodies []Body // res.Bodies by node, for FLOPs; nil until they are asked for
}

func newInference(g *graph.Graph, opsets []graph.Opset, outer *inference) *inference {
	inf := &inference{g: g, opsets: opsets, outer: outer,
		versions: make(map[string]int64, len(opsets)),
		declared: newSparse[graph.Type](len(g.Values)),
		res:      &Result{contents: newSparse[[]symbolic.Expr](len(g.Values))}}
	if outer != nil {
		inf.careful, inf.purse = outer.careful, outer.purse
		if outer.terms == nil {
			outer.terms = new(int)
		}
		inf.terms = outer.terms
	}
	for _, o := range opsets {
		inf.versions[graph.CanonicalDomain(o.Domain)] = o.Version
	}
	if outer != nil {
		inf.strict, inf.local, inf.known = outer.strict, outer.local, outer.known
	}
	inf.inputs = inputSymbols(g, outer)
	inf.readDeclared()
	inf.startValues()
	return inf
}

// readDeclared collects the file's types of node outputs. The file may state a graph output's type
// in two places.
func (inf *inference) readDeclared() {
	for _, list := range [][]graph.Decl{inf.g.ValueInfo, inf.g.Outputs} {
		for _, d := range list {
			t := d.Type
			t.Shape = withoutNegatives(t.Shape)
			if t.Form != graph.FormUnknown {
				merged, _ := inf.merge(t, inf.declared.get(d.Value))
				inf.declared.set(d.Value, merged)
			}
		}
	}
}

// inputSymbols lists the names of dimensions that the caller decides on. A
// declared symbol that is not among them is only a name for something that
// inference may express in terms of these.
func inputSymbols(g *graph.Graph, outer *inference) map[string]bool {
	names, own := map[string]bool{}, outer == nil
	if outer != nil {
		names = outer.inputs
	}
	add := func(name string) {
		if !own && !names[name] {
			names, own = maps.Clone(names), true // subgraphs share the set unless they add to it
		}
		if own {
			names[name] = true
		}
	}
	for _, d := range g.Inputs {
		for _, dim := range d.Type.Shape.Dims {
			dim.VisitSymbols(add)
		}
	}
	return names
}

// startValues gives the types of values that no node makes.
func (inf *inference) startValues() {
	for i := range inf.g.Values {
		inf.startValue(graph.ValueID(i))
	}
}

func (inf *inference) startValue(id graph.ValueID) {
	v := &inf.g.Values[id]
	switch {
	case v.Outer != graph.NoValue && inf.outer != nil:
		v.Type = inf.g.Outer.Values[v.Outer].Type
		inf.res.setContents(id, inf.outer.res.contents.get(v.Outer))
		inf.res.setDen(id, inf.outer.res.den(v.Outer))
	case v.Data != nil && v.IsConstant():
		elems, den, err := readBlock(v.Data)
		if err != nil && v.Data.External != nil && v.Data.DType.IsInteger() && inf.readErr == nil {
			inf.readErr = fmt.Errorf("initializer %q: shapes may depend on its contents: %w", v.Name, err)
		}
		inf.res.setContents(id, elems)
		inf.res.setDen(id, den)
	case v.Input:
		v.Type.Shape = inf.afford(withoutNegatives(v.Type.Shape))
	case v.Def == graph.NoNode && !v.IsInitializer():
		v.Type = graph.Type{} // a declaration is left of it alone, whose labels no node can resolve
	}
}

// withoutNegatives makes negative dims unknown: some exporters write -1 for a dim
// that they do not know.
func withoutNegatives(s graph.Shape) graph.Shape {
	for i, d := range s.Dims {
		if n, ok := d.Const(); ok && n < 0 {
			s = with(s, i, symbolic.Unknown())
		}
	}
	return s
}

func (inf *inference) run(order graph.Order) error {
	if inf.readErr != nil {
		return inf.readErr
	}
	for i := range inf.g.Values {
		v := &inf.g.Values[i]
		if v.Def == graph.NoNode && len(v.Type.Shape.Dims) > maxRank {
			return fmt.Errorf("value %q has rank %d; memopt takes up to %d", v.Name, len(v.Type.Shape.Dims), maxRank)
		}
	}
	for _, id := range order {
		if err := inf.node(inf.g.Nodes[id]); err != nil {
			return err
		}
	}
	return nil
}

// node infers the outputs of a node.
func (inf *inference) node(n *graph.Node) error {
	if inf.strict {
		setFaults(n, n.Fault(), nil)
		if err := inf.apply(n, n.Kind, 0); err != nil {
			return err
		}
	} else {
		bindNode(n, inf.local) // an earlier round of a loop may have read it in another way
		if err := inf.read(n); err != nil {
			return err
		}
	}
	for slot, id := range n.Outputs {
		if id != graph.NoValue {
			inf.settle(n, slot, inf.ctx.outType(slot))
		}
	}
	return inf.checkOverflow(n)
}

// apply runs the rule of a row on a node; version 0 is that of the imported operator set. The
// results are in inf.ctx. The error says how the node contradicts the definition.
func (inf *inference) apply(n *graph.Node, kind graph.Kind, version int) error {
	info := Of(kind)
	n.Kind, n.Version = kind, int32(version)
	c := &inf.ctx
	*c = Ctx{inf: inf, Node: n, Info: info, Version: info.VersionOf(n, inf.versions[info.Domain]), outs: c.outs[:0]}
	if c.Version == 0 || info.Infer == nil {
		inf.res.NoRow = append(inf.res.NoRow, n.ID)
	} else if c.checkDefinition(); c.err == nil {
		info.Infer(c)
	}
	for slot := range c.outs {
		c.checkOutput(slot)
	}
	return c.err
}

// checkOutput refuses shapes that no tensor has. A dim is unknown if its expression grew beyond the
// limits of package symbolic.
func (c *Ctx) checkOutput(slot int) {
	s := c.outs[slot].Shape
	if len(s.Dims) > maxRank {
		c.Errorf("output %d would have rank %d; memopt takes up to %d", slot, len(s.Dims), maxRank)
		return
	}
	for i, d := range s.Dims {
		if n, ok := d.Const(); ok && n < 0 {
			c.Errorf("output %d would have shape %v", slot, s)
		} else if errors.Is(d.Err(), symbolic.ErrTooLarge) {
			s = with(s, i, symbolic.Unknown())
			c.outs[slot].Shape = s
		}
	}
}

// checkOverflow refuses sizes beyond int64.
func (inf *inference) checkOverflow(n *graph.Node) error {
	for slot, id := range n.Outputs {
		if id == graph.NoValue {
			continue
		}
		for axis, d := range inf.g.Values[id].Type.Shape.Dims {
			if err := d.Err(); err != nil {
				return fmt.Errorf("node %q (%s): output %d (%q): dim %d: %w", inf.g.NodeLabel(n.ID), n.Op, slot,
					inf.g.Values[id].Name, axis, err)
			}
		}
		if err := inf.g.Values[id].Type.Bytes().Err(); errors.Is(err, symbolic.ErrOverflow) {
			return fmt.Errorf("node %q (%s): output %d (%q): size of %v: %w", inf.g.NodeLabel(n.ID), n.Op, slot,
				inf.g.Values[id].Name, inf.g.Values[id].Type, err)
		}
	}
	return nil
}

// corrected returns a declared type with the elements and the rank that inference found.
func corrected(t, inferred graph.Type) graph.Type {
	if t.Form != graph.FormTensor || inferred.Form != graph.FormTensor {
		return inferred
	}
	if inferred.DType != graph.Undefined {
		t.DType = inferred.DType
	}
	if inferred.Shape.Ranked && len(inferred.Shape.Dims) != len(t.Shape.Dims) {
		t.Shape = inferred.Shape
	}
	return t
}

// settle merges the file's type of an output with the inferred one.
func (inf *inference) settle(n *graph.Node, slot int, inferred graph.Type) {
	id := n.Outputs[slot]
	v := &inf.g.Values[id]
	declared := inf.relabelled(inf.declared.get(id))
	merged, ok := inf.merge(declared, inferred)
	if !ok {
		c := Conflict{Value: id, Declared: declared, Inferred: inferred, Unread: !v.Output && !isRead(inf.g, id)}
		merged = corrected(merged, inferred)
		if c.Refuted() && n.Clash() == nil {
			setFaults(n, n.Fault(),
				inf.ctx.fault(fmt.Sprintf("output %d (%q) is %v by the operator's definition, and %v in the file",
					slot, v.Name, inferred, declared)))
		}
		inf.res.Conflicts = append(inf.res.Conflicts, c)
	}
	merged.Shape = inf.afford(merged.Shape)
	v.Type = merged
}

// isRead reports whether a node of the graph or of its subgraphs reads a value.
func isRead(g *graph.Graph, id graph.ValueID) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		return slices.Contains(n.Inputs, id) || slices.Contains(n.Captures(), id)
	})
}

// Clash returns the Clash of the first node that has one, in a graph and in its subgraphs; nil if no
// type in the file contradicts an operator.
func Clash(g *graph.Graph) error {
	for _, n := range g.Nodes {
		err := n.Clash()
		n.Subgraphs(func(_ string, sub *graph.Graph) {
			if err == nil {
				err = Clash(sub)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
