package live

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/hint"
	"memopt/symbolic"
)

// Unsized is the size of a value whose size is unknown.
const Unsized int64 = -1

// Sizes has the bytes of every value of a graph, by ValueID: Unsized where
// its type does not say, for example because the size depends on data.
type Sizes struct {
	Bytes []int64
	Inner []int64 // by NodeID: the peak inside a node's subgraphs; nil if no node has subgraphs
	// Aliased says which nodes' first outputs lie in the memory of their first inputs, by NodeID,
	// in a runtime that has no other views and does not write in place. Nil means that the op table
	// decides on views and on writing in place.
	Aliased []bool
	// Slices says which operands are parts of which, by NodeID; nil if no node has such operands.
	Slices []*Slices
	// States are written into the buffers of their inputs where that is possible. They are empty for
	// a runtime with Aliased.
	States []State
	// Failures says which nodes may fail by data, by NodeID: states are written in place only after
	// the last of them has run. Nil means that no node may fail.
	Failures []op.Failure
}

// Alias makes the sizes those of a runtime whose sharing of memory is known by node. There,
// operators that update their operands have outputs without a size of their own.
func (s *Sizes) Alias(g *graph.Graph, aliased []bool) {
	s.Aliased, s.States = aliased, nil
	for _, n := range g.Nodes {
		if len(op.Of(n.Kind).Mutates) == 0 {
			continue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				s.Bytes[v] = 0
			}
		}
	}
}

// View reports whether a node's first output lies in the memory of its first input.
func (s *Sizes) View(n *graph.Node) bool {
	if s.Aliased != nil {
		return s.Aliased[n.ID]
	}
	return op.Of(n.Kind).View
}

// InPlace lists the inputs into whose memory a node's first output may be written.
func (s *Sizes) InPlace(n *graph.Node) []int {
	if s.Aliased != nil {
		return nil
	}
	return op.Of(n.Kind).InPlace
}

// EvalSizes evaluates the sizes of all values at the given bindings. The error is a
// *symbolic.UnboundError that lists every symbol without a binding, or names the value whose size
// is negative or exceeds int64.
func EvalSizes(g *graph.Graph, env symbolic.Env) (*Sizes, error) { return evalSizes(g, env, nil) }

// EvalRunSizes is EvalSizes for a run, which determines symbols that no graph input has: values of
// such a size are Unsized.
func EvalRunSizes(g *graph.Graph, env symbolic.Env) (*Sizes, error) {
	inputs := map[string]bool{}
	for _, d := range g.Inputs {
		for _, dim := range d.Type.Shape.Dims {
			dim.VisitSymbols(func(name string) { inputs[name] = true })
		}
	}
	return evalSizes(g, env, func(symbol string) bool { return !inputs[symbol] })
}

// evalSizes evaluates sizes; those that lack only symbols that may stay open are Unsized. A nil
// open means that no symbol may.
func evalSizes(g *graph.Graph, env symbolic.Env, open func(symbol string) bool) (*Sizes, error) {
	s := &Sizes{Bytes: make([]int64, len(g.Values))}
	unbound := unboundSymbols{}
	for i := range g.Values {
		v := &g.Values[i]
		expr := v.Type.Bytes()
		if expr.IsUnknown() {
			s.Bytes[i] = Unsized
			continue
		}
		n, err := expr.Eval(env)
		var missing *symbolic.UnboundError
		switch {
		case errors.As(err, &missing) && open != nil &&
			!slices.ContainsFunc(missing.Symbols, func(name string) bool { return !open(name) }):
			n = Unsized
		case errors.As(err, &missing):
			unbound.add(g, graph.ValueID(i), missing)
		case err != nil:
			return nil, fmt.Errorf("value %q: size of %v: %w", v.Name, v.Type, err)
		case n < 0 || hasNegativeDim(v.Type.Shape, env):
			return nil, fmt.Errorf("value %q: %v has a negative dim at these bindings; check %v", v.Name, v.Type,
				hint.Dims)
		}
		s.Bytes[i] = n
	}
	if err := s.evalInner(g, env, open, unbound); err != nil {
		return nil, err
	}
	if err := unbound.err(); err != nil {
		return nil, err
	}
	s.evalSlices(g, env)
	return s, nil
}

// unboundSymbols says of every symbol without a binding which value has it first.
type unboundSymbols map[string]unboundSymbol

type unboundSymbol struct {
	maker  graph.NodeID // NoNode where the value is an input, or one of a graph around
	origin string       // in words; "" there
}

// add notes the symbols that a value's size lacks. If several values lack the same symbol, the one
// whose node comes first counts.
func (u unboundSymbols) add(g *graph.Graph, id graph.ValueID, missing *symbolic.UnboundError) {
	v := &g.Values[id]
	for _, name := range missing.Symbols {
		old, known := u[name]
		switch {
		case v.Def == graph.NoNode:
			u[name] = unboundSymbol{maker: graph.NoNode}
		case !known || old.maker != graph.NoNode && v.Def < old.maker:
			u[name] = unboundSymbol{v.Def,
				fmt.Sprintf("is the file's name for a dim of %q, which node %q (%s) makes: inference cannot tell "+
					"its length",
					v.Name, g.NodeLabel(v.Def), g.Nodes[v.Def].Op)}
		}
	}
}

// addInner notes the symbols that a subgraph lacks.
func (u unboundSymbols) addInner(node graph.NodeID, missing *symbolic.UnboundError) {
	for _, name := range missing.Symbols {
		if _, known := u[name]; !known {
			u[name] = unboundSymbol{node, missing.Origins[name]}
		}
	}
}

// err is the error that lists the symbols, nil if there are no symbols.
func (u unboundSymbols) err() error {
	if len(u) == 0 {
		return nil
	}
	e := &symbolic.UnboundError{Symbols: slices.Sorted(maps.Keys(u)), Origins: map[string]string{}}
	for name, s := range u {
		if s.origin != "" {
			e.Origins[name] = s.origin
		}
	}
	return e
}

func hasNegativeDim(s graph.Shape, env symbolic.Env) bool {
	for _, d := range s.Dims {
		if c, ok := d.Const(); ok {
			if c < 0 {
				return true
			}
			continue
		}
		if n, err := d.Eval(env); err == nil && n < 0 {
			return true
		}
	}
	return false
}

// evalInner charges a control-flow node with the peak of its largest subgraph.
func (s *Sizes) evalInner(
	g *graph.Graph, env symbolic.Env, open func(symbol string) bool, unbound unboundSymbols,
) error {
	for i, n := range g.Nodes {
		if !n.HasSubgraphs() {
			continue
		}
		if s.Inner == nil {
			s.Inner = make([]int64, len(g.Nodes))
		}
		var err error
		n.Subgraphs(func(name string, sub *graph.Graph) {
			if err != nil {
				return
			}
			peak, e := innerPeak(sub, env, open)
			var missing *symbolic.UnboundError
			if errors.As(e, &missing) {
				unbound.addInner(n.ID, missing)
			} else if err = e; err != nil {
				err = fmt.Errorf("node %q: subgraph %q: %w", g.NodeLabel(n.ID), name, err)
				return
			}
			s.Inner[i] = max(s.Inner[i], peak)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func innerPeak(sub *graph.Graph, env symbolic.Env, open func(symbol string) bool) (int64, error) {
	sizes, err := evalSizes(sub, env, open)
	if err != nil {
		return 0, err
	}
	order, err := graph.Topological(sub)
	if err != nil {
		return 0, err
	}
	t, err := Simulate(sub, order, sizes)
	if err != nil {
		return 0, err
	}
	return t.Peak.Bytes, nil
}

// Persistent reports whether a value is live throughout: a graph input, an
// initializer, a Constant node's output or, in a subgraph, a captured value.
func Persistent(g *graph.Graph, id graph.ValueID) bool {
	v := &g.Values[id]
	if v.Def == graph.NoNode {
		return true
	}
	return op.Of(g.Nodes[v.Def].Kind).Has(op.ConstantRole)
}

// PersistentBytes is the sum of the persistent values' known sizes. Values without producer and
// readers, such as left-over value_info, do not count, and states in a home (graph.Value.Homed) neither.
func PersistentBytes(g *graph.Graph, s *Sizes) (int64, error) {
	var total int64
	for i := range g.Values {
		if total += persistentBytes(g, s, graph.ValueID(i)); total < 0 {
			return 0, fmt.Errorf("inputs and weights together: %w", symbolic.ErrOverflow)
		}
	}
	return total, nil
}

// persistentBytes is a value's share of PersistentBytes.
func persistentBytes(g *graph.Graph, s *Sizes, id graph.ValueID) int64 {
	if CountsPersistent(g, id) {
		return max(s.Bytes[id], 0)
	}
	return 0
}

// CountsPersistent reports whether a value's bytes are part of PersistentBytes.
func CountsPersistent(g *graph.Graph, id graph.ValueID) bool {
	v := &g.Values[id]
	return !v.Homed && (v.Input || v.IsInitializer() || v.Def != graph.NoNode && Persistent(g, id))
}

func backwardReaders(uses []graph.Use, backward []bool, pos []int32) []graph.NodeID {
	var readers []graph.NodeID
	for _, u := range uses {
		if backward[u.Node] && (len(readers) == 0 || readers[len(readers)-1] != u.Node) {
			readers = append(readers, u.Node)
		}
	}
	slices.SortFunc(readers, func(a, b graph.NodeID) int { return cmp.Compare(pos[a], pos[b]) })
	return readers
}
