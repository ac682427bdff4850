package live

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Unsized is the size of a value of which nobody knows the size.
const Unsized int64 = -1

// Sizes has the bytes of every value of a graph, by ValueID: Unsized where
// its type does not say, for example because the size depends on data.
type Sizes struct {
	Bytes []int64
	Inner []int64 // by NodeID: the peak of what runs inside a node's subgraphs; nil where no node has any
}

// EvalSizes evaluates the sizes of all values at the given bindings. The error is a
// *symbolic.UnboundError that lists every symbol without a binding, or names the value
// whose size is negative or leaves int64.
func EvalSizes(g *graph.Graph, env symbolic.Env) (*Sizes, error) {
	s := &Sizes{Bytes: make([]int64, len(g.Values))}
	unbound := map[string]bool{}
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
		case errors.As(err, &missing):
			for _, name := range missing.Symbols {
				unbound[name] = true
			}
		case err != nil:
			return nil, fmt.Errorf("value %q: size of %v: %w", v.Name, v.Type, err)
		case n < 0 || hasNegativeDim(v.Type.Shape, env):
			return nil, fmt.Errorf("value %q: %v has a negative dim at these bindings; check --dim", v.Name, v.Type)
		}
		s.Bytes[i] = n
	}
	if len(unbound) > 0 {
		names := make([]string, 0, len(unbound))
		for name := range unbound {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, &symbolic.UnboundError{Symbols: names}
	}
	return s, s.evalInner(g, env)
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
func (s *Sizes) evalInner(g *graph.Graph, env symbolic.Env) error {
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
			var peak int64
			if peak, err = innerPeak(sub, env); err != nil {
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

func innerPeak(sub *graph.Graph, env symbolic.Env) (int64, error) {
	sizes, err := EvalSizes(sub, env)
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

// PersistentBytes is the sum of the persistent values' sizes that are known.
// Values that nothing makes and nothing reads, such as left-over value_info, do not count.
func PersistentBytes(g *graph.Graph, s *Sizes) (int64, error) {
	var total int64
	for i := range g.Values {
		v := &g.Values[i]
		counts := v.Input || v.IsInitializer() || v.Def != graph.NoNode && Persistent(g, graph.ValueID(i))
		if !counts || s.Bytes[i] <= 0 {
			continue
		}
		if total += s.Bytes[i]; total < 0 {
			return 0, fmt.Errorf("inputs and weights together: %w", symbolic.ErrOverflow)
		}
	}
	return total, nil
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
