package parallel

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/symbolic"
)

// stepGraph is the graph of a micro-step with facts about its nodes.
type stepGraph struct {
	g        *graph.Graph
	env      symbolic.Env
	params   []graph.ValueID
	backward []bool // by node
	states   []live.State
	opsets   []graph.Opset
}

// newDivider makes a divider without any divided value.
func newDivider(s *stepGraph, l Layout) *divider {
	g := s.g
	d := &divider{g: g, ways: int64(l.TP), seq: l.SequenceParallel, back: s.backward, env: s.env,
		params: s.params, opsets: s.opsets}
	d.dims = make([][]int64, len(g.Values))
	for v := range g.Values {
		d.dims[v] = evalDims(g.Values[v].Type.Shape, s.env)
	}
	d.param = make([]bool, len(g.Values))
	d.ban, d.group = make([]string, len(g.Values)), make([]graph.ValueID, len(g.Values))
	d.fixed, d.fixes = make([]bool, len(g.Values)), make([]cut, len(g.Values))
	for _, p := range s.params {
		d.param[p] = true
	}
	d.next = make([]graph.ValueID, len(g.Values))
	for v := range d.next {
		d.next[v] = graph.NoValue
	}
	for _, st := range s.states {
		d.next[st.Out] = st.In
	}
	d.findData()
	d.findTable()
	d.reset()
	return d
}

// evalDims returns dims as numbers, nil where one of them is not known.
func evalDims(s graph.Shape, env symbolic.Env) []int64 {
	if !s.Ranked {
		return nil
	}
	dims := make([]int64, len(s.Dims))
	for i, e := range s.Dims {
		n, err := e.Eval(env)
		if err != nil {
			return nil
		}
		dims[i] = n
	}
	return dims
}

// reset forgets all divisions, but not which parameters cannot be divided.
func (d *divider) reset() {
	n := len(d.g.Values)
	d.cuts, d.role, d.sliced = make([]cut, n), make([]string, n), make([]sliced, n)
	d.origin, d.reader = make([]graph.ValueID, n), make([]graph.ValueID, n)
	d.gather = make([]int64, len(d.g.Nodes))
	for v := range n {
		d.group[v], d.origin[v], d.reader[v] = graph.ValueID(v), graph.NoValue, graph.NoValue
		if d.fixed[v] && d.g.Values[v].Def == graph.NoNode {
			d.cuts[v] = d.fixes[v]
		}
	}
}

// findData finds the values that depend on no parameter.
func (d *divider) findData() {
	d.data = make([]bool, len(d.g.Values))
	for v := range d.g.Values {
		d.data[v] = d.g.Values[v].Def == graph.NoNode && !d.param[v]
	}
	for _, n := range d.g.Nodes {
		pure := true
		for _, in := range n.Inputs {
			pure = pure && (in == graph.NoValue || d.data[in])
		}
		for _, out := range n.Outputs {
			if out != graph.NoValue {
				d.data[out] = pure
			}
		}
	}
}

// run divides all values. Where a division of the forward half cannot go on, the parameters that it
// began at stay whole, and all begins anew.
func (d *divider) run(order graph.Order) error {
	for {
		err := d.half(order, false)
		var stop *blocked
		if !errors.As(err, &stop) {
			if err != nil {
				return err
			}
			break
		}
		if !d.stop(stop) {
			return fmt.Errorf("parallel: %w, and no node is left to keep whole", err)
		}
		d.reset()
	}
	d.sums()
	if err := d.half(order, true); err != nil {
		return err
	}
	d.refine(order)
	return nil
}

// half divides the outputs of one half's nodes.
func (d *divider) half(order graph.Order, backward bool) error {
	for _, id := range order {
		if d.back[id] == backward && d.known(d.g.Nodes[id]) {
			if err := d.node(d.g.Nodes[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// known reports whether the dims of all operands of a node are known.
func (d *divider) known(n *graph.Node) bool {
	for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
		for _, v := range list {
			if v != graph.NoValue && d.dims[v] == nil {
				return false
			}
		}
	}
	return true
}

// stop keeps the parameters whole that are divided together with the one that begins a blocked
// division, and reports whether any was divided.
func (d *divider) stop(b *blocked) (any bool) {
	root := d.root(b.origin)
	for _, p := range d.params {
		if d.role[p] != "" && d.root(p) == root && d.ban[p] == "" {
			d.ban[p], any = b.why, true
		}
	}
	return any
}

// sums divides the sums of gradients as their parameters.
func (d *divider) sums() {
	for _, p := range d.params {
		if sum, ok := d.g.Lookup(d.g.ValueName(p) + autograd.SumSuffix); ok && len(d.dims[sum]) == len(d.dims[p]) {
			d.cuts[sum], d.origin[sum] = d.cuts[p], p
		}
	}
}

// refine divides values whose readers all take a part, if their producers can make that part alone:
// zeros, one-hot rows, the gradient of a table, and elementwise functions of such.
func (d *divider) refine(order graph.Order) {
	readers := make([]int, len(d.g.Values))
	for _, n := range d.g.Nodes {
		for _, v := range n.Inputs {
			if v != graph.NoValue {
				readers[v]++
			}
		}
	}
	for i := len(order) - 1; i >= 0; i-- {
		n := d.g.Nodes[order[i]]
		v := n.Output(0)
		if v == graph.NoValue || d.cuts[v].kind != whole || d.g.Values[v].Output || !d.known(n) {
			continue
		}
		s := &d.sliced[v]
		if s.readers == 0 || s.mixed || s.readers != readers[v] || !d.makesPart(n, s.cut) {
			continue
		}
		d.cuts[v] = s.cut
	}
}

// makesPart reports whether a node can make a part of its output from parts of its inputs, or
// without inputs: zeros, and the rows of a table's gradient that a rank has.
func (d *divider) makesPart(n *graph.Node, c cut) bool {
	v := &visit{d, n}
	if !slices.ContainsFunc(n.Inputs, func(in graph.ValueID) bool { return in != graph.NoValue && !d.numbers(in) }) {
		return true
	}
	if d.table != graph.NoValue && c.axis == 0 && slices.Equal(d.dims[n.Output(0)], d.dims[d.table]) {
		return v.scattersRows()
	}
	factors := v.factors()
	for k := range factors {
		f := &factors[k]
		if p := f.Out[0]; p.Dim != c.axis || p.Outer != 1 || p.Inner != 1 || len(n.Outputs) != 1 {
			continue
		}
		for i, in := range n.Inputs {
			if in == graph.NoValue || !f.In[i].Cut() {
				continue
			}
			if d.param[in] || !v.want(i, c.within(f.In[i], stretch{1, 1})) {
				return false
			}
		}
		return true
	}
	return false
}

// scattersRows reports whether a node adds rows to a table at places that integers name.
func (v *visit) scattersRows() bool {
	return slices.ContainsFunc(v.n.Inputs, func(in graph.ValueID) bool {
		return in != graph.NoValue && len(v.dims[in]) > 0 && !v.g.Values[in].Type.DType.IsFloat()
	})
}

// apply gives the values the dims that they have on one rank.
func (d *divider) apply() {
	for v := range d.g.Values {
		c := d.cuts[v]
		if c.kind == whole || d.dims[v] == nil {
			continue
		}
		t := &d.g.Values[v].Type
		dims := make([]symbolic.Expr, len(d.dims[v]))
		for i, n := range d.dims[v] {
			if dims[i] = symbolic.Const(n); i == c.axis {
				dims[i] = symbolic.Const(d.part(n))
			}
		}
		t.Shape = graph.Dims(dims...)
	}
}

// WeightRule is the division of parameters by tensor parallel.
type WeightRule struct {
	Names []string // of parameters
	Dims  []int64  // of one of them, whole
	Axis  int      // the divided axis; -1 if the parameter stays whole
	Role  string   // "column-parallel", …; "" for those that stay whole
	Why   string   // why they stay whole; "" if no rule would divide them
}

// weightRules lists how parameters are divided, those of one kind in different layers together.
func (d *divider) weightRules() (list []WeightRule) {
	index := map[string]int{}
	for _, p := range d.params {
		r := WeightRule{Names: []string{d.g.ValueName(p)}, Dims: d.dims[p], Axis: -1, Role: d.role[p], Why: d.ban[p]}
		if d.cuts[p].kind != whole {
			r.Axis = d.cuts[p].axis
		}
		key := fmt.Sprint(general(r.Names[0]), r.Dims, r.Axis, r.Role)
		if at, ok := index[key]; ok {
			list[at].Names = append(list[at].Names, r.Names[0])
			continue
		}
		index[key] = len(list)
		list = append(list, r)
	}
	return list
}

// numberIn finds the numbers in a name.
var numberIn = regexp.MustCompile(`\d+`)

// general replaces the numbers in a name.
func general(name string) string { return numberIn.ReplaceAllString(name, "*") }
