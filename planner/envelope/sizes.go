package envelope

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Sizes has the bytes of a graph's values as expressions.
type Sizes struct {
	graph   *graph.Graph
	class   []int32         // by value: its class among the distinct sizes; -1 if unknown
	bytes   []symbolic.Expr // by class
	dims    []symbolic.Expr // the distinct dims that are no numbers
	subs    map[graph.NodeID][]*Sizes
	aliased []bool // live.Sizes.Aliased
}

// A value of unknown size, which counts as 0 bytes, has this class.
const none = -1

// NewSizes finds the sizes of a graph whose types are inferred. aliased is that of live.Sizes, or
// nil.
func NewSizes(g *graph.Graph, aliased []bool) *Sizes {
	s := &Sizes{graph: g, class: make([]int32, len(g.Values)), subs: map[graph.NodeID][]*Sizes{}, aliased: aliased}
	known, dims := map[string]int32{}, map[string]bool{}
	sizeless := make([]bool, len(g.Values))
	if aliased != nil {
		for _, n := range g.Nodes {
			for _, v := range n.Outputs {
				if v != graph.NoValue && len(op.Of(n.Kind).Mutates) > 0 {
					sizeless[v] = true // as live.Sizes.Alias has it
				}
			}
		}
	}
	for i := range g.Values {
		t := g.Values[i].Type
		for _, d := range t.Shape.Dims {
			if _, constant := d.Const(); constant || !d.IsKnown() || t.Form != graph.FormTensor {
				continue
			}
			if text := d.String(); !dims[text] {
				dims[text] = true
				s.dims = append(s.dims, d)
			}
		}
		e := t.Bytes()
		if sizeless[i] {
			e = symbolic.Const(0)
		}
		if e.IsUnknown() {
			s.class[i] = none
			continue
		}
		text := e.String()
		if _, ok := known[text]; !ok {
			known[text] = int32(len(s.bytes))
			s.bytes = append(s.bytes, e)
		}
		s.class[i] = known[text]
	}
	for _, n := range g.Nodes {
		n.Subgraphs(func(_ string, sub *graph.Graph) {
			s.subs[n.ID] = append(s.subs[n.ID], NewSizes(sub, nil))
		})
	}
	return s
}

// Persistent is the bytes of the values that are live throughout, as live.PersistentBytes counts
// them. It fails if the sum is too large for an expression.
func (s *Sizes) Persistent() (symbolic.Expr, error) {
	var list []symbolic.Expr
	for v := range s.class {
		if id := graph.ValueID(v); s.class[v] != none && live.CountsPersistent(s.graph, id) {
			list = append(list, s.bytes[s.class[v]])
		}
	}
	sum := symbolic.Sum(list...)
	if !sum.IsKnown() {
		return sum, fmt.Errorf("inputs and weights together: %w", sum.Err())
	}
	return sum, nil
}

// Largest returns the bytes of the largest value at a binding: no step with that value gets by with
// less. Values whose size fails there do not count.
func (s *Sizes) Largest(env symbolic.Env) int64 {
	var most int64
	for _, e := range s.bytes {
		if n, err := e.Eval(env); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// ofProgram returns the classes of a program's values; a clone has the class of its original.
func (s *Sizes) ofProgram(p *live.Program) ([]int32, error) {
	class := make([]int32, len(p.Bytes))
	copy(class, s.class)
	for i := len(s.class); i < len(class); i++ {
		class[i] = none
	}
	for i := range p.Steps {
		step := &p.Steps[i]
		outputs := s.graph.Nodes[step.Node].Outputs
		for slot, v := range step.Out {
			if int(v) < len(s.class) {
				continue
			}
			if slot >= len(outputs) {
				return nil, fmt.Errorf("node %q: its workspace of %d bytes has no formula",
					s.graph.NodeLabel(step.Node), p.Bytes[v])
			}
			class[v] = s.class[outputs[slot]]
		}
	}
	return class, nil
}

// maxRising bounds the parts of a box in Rising.
const maxRising = 1024

// Rising cuts a box into parts where no value shrinks as any symbol grows, so that all are largest at
// the part's largest sizes: one part, unless sizes are not polynomials. fixed binds symbols that the
// box does not have. The error is ErrPieces if that takes too many parts.
func (s *Sizes) Rising(box Box, fixed symbolic.Env) ([]Box, error) {
	open := []Box{box}
	var done []Box
	for len(open) > 0 {
		b := open[len(open)-1]
		open = open[:len(open)-1]
		e, falls := s.falling(b, fixed)
		if !falls {
			done = append(done, b)
			continue
		}
		if len(done)+len(open) > maxRising {
			return nil, fmt.Errorf("%w: it is not proved that %.120s grows with all sizes in %v", ErrPieces, e, b)
		}
		axis := question{of: e}.widest(b)
		at := b[axis].Lo + (b[axis].Hi-b[axis].Lo)/2
		below, above := b.cut(axis, at)
		open = append(open, below, above)
	}
	return done, nil
}

// falling returns a size that may shrink as symbols grow: the opposite is not proved.
func (s *Sizes) falling(box Box, fixed symbolic.Env) (symbolic.Expr, bool) {
	if box.point() {
		return symbolic.Expr{}, false
	}
	for _, e := range s.bytes {
		e = e.Bind(fixed)
		for _, a := range box {
			if a.Lo != a.Hi && !Rises(e, box, a.Symbol) {
				return e, true
			}
		}
	}
	return symbolic.Expr{}, false
}
