package optimize

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
)

// patternRow is a row of the table of patterns.
type patternRow struct {
	form  string
	op    string
	since int64 // the operator set that the operator needs
	// attrs returns the attributes of the operator and its inputs; ok is false where it would not
	// compute the same.
	attrs func(f *found) (attrs []graph.Attr, in []graph.ValueID, ok bool)

	pattern *pattern.Pattern
}

// Parts of the forms: a layer's norm, and that of the root mean square.
const (
	layerNorm = `{Div(` + pattern.Centred + `, ` + pattern.Spread + `) |
		Mul(` + pattern.Centred + `, ` + pattern.Inverse + `)}`
	rmsNorm = `{Div(d, ` + pattern.Spread + `) | Mul(d, ` + pattern.Inverse + `)}`
)

// patternRows are the patterns that are recognised. Among those with the same last node the first
// that fits counts. Nodes are visited from the last to the first, so that the larger pattern
// counts.
var patternRows = []patternRow{
	{form: `Add(Mul(` + layerNorm + `, w), b)`, op: "LayerNormalization", since: 17, attrs: normAttrs("x", "w", "b")},
	{form: `Mul(` + layerNorm + `, w)`, op: "LayerNormalization", since: 17, attrs: normAttrs("x", "w")},
	{form: `Mul(` + rmsNorm + `, w)`, op: "RMSNormalization", since: 23, attrs: normAttrs("d", "w")},
	{form: `Mul(Mul(x, ` + pattern.Twice + `), 0.5)`, op: "Gelu", since: 20, attrs: gelu("none")},
	{form: `Mul(Mul(x, 0.5), ` + pattern.Twice + `)`, op: "Gelu", since: 20, attrs: gelu("none")},
	{form: `Mul(x, Mul(` + pattern.Twice + `, 0.5))`, op: "Gelu", since: 20, attrs: gelu("none")},
	{form: `Mul(Mul(x, ` + pattern.NearTwice + `), 0.5)`, op: "Gelu", since: 20, attrs: gelu("tanh")},
	{form: `Mul(Mul(x, 0.5), ` + pattern.NearTwice + `)`, op: "Gelu", since: 20, attrs: gelu("tanh")},
	{form: `Mul(x, Mul(` + pattern.NearTwice + `, 0.5))`, op: "Gelu", since: 20, attrs: gelu("tanh")},
	{form: `Mul(x, Tanh(Softplus(x)))`, op: "Mish", since: 18, attrs: plain},
	{form: `Mul(x, h: HardSigmoid(x))`, op: "HardSwish", since: 14, attrs: hardSwish},
	{form: `Div(e: Exp(Sub(x, ReduceMax(x))), ReduceSum(e))`, op: "Softmax", since: 13, attrs: softmax},
	{form: `Sub(d: Sub(x, ReduceMax(x)), Log(ReduceSum(Exp(d))))`, op: "LogSoftmax", since: 13, attrs: softmax},
}

// patternsOf has the rows by the kind of the last node.
var patternsOf [op.NumKinds][]*patternRow

func init() {
	for i := range patternRows {
		row := &patternRows[i]
		row.pattern = pattern.Parse(row.form)
		last := row.pattern.Last()
		patternsOf[last] = append(patternsOf[last], row)
	}
}

// found is a place where a pattern fits.
type found struct {
	*pattern.Match
	*site
	axes []int64 // the axes of its reductions, ascending and from 0 on
}

// fusePatterns writes the operator in place of the nodes.
func fusePatterns(s *site) error {
	var nodes []*graph.Node
	s.Nodes(func(n *graph.Node) { nodes = append(nodes, n) })
	for _, n := range slices.Backward(nodes) {
		for _, row := range patternsOf[n.Kind] {
			if s.Gone(n) || !known(n) || s.run.m.OpsetVersion("") < row.since {
				continue
			}
			if err := s.fuse(n, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// fuse writes the operator of a row where its pattern fits.
func (s *site) fuse(n *graph.Node, row *patternRow) error {
	number := func(v graph.ValueID) (float64, bool) { return pattern.Number(s.G, v) }
	m := row.pattern.Find(s.G, n, number)
	if m == nil || !m.Closed(s.Reads, s.Held) || slices.ContainsFunc(m.Nodes, s.unusable) {
		return nil
	}
	f := &found{Match: m, site: s}
	out := n.Output(0)
	if !f.readAxes() || !s.sameType(f.data(), out) {
		return nil
	}
	attrs, in, ok := row.attrs(f)
	if !ok {
		return nil
	}
	for _, node := range m.Nodes {
		s.Remove(node)
	}
	s.did(row.op)
	return s.Add(&graph.Node{Name: n.Name, Op: row.op, Inputs: in, Outputs: []graph.ValueID{out}, Attrs: attrs}, n)
}

// unusable reports whether a node cannot be part of a pattern.
func (s *site) unusable(n *graph.Node) bool { return s.Gone(n) || !known(n) }

// data is the value that the operator is a function of.
func (f *found) data() graph.ValueID {
	if x := f.Named("x"); x != graph.NoValue {
		return x
	}
	return f.Named("d")
}

// readAxes reads the axes of all reductions, which have to be the same and to be kept.
func (f *found) readAxes() bool {
	for i, r := range f.Reduces {
		rank := f.typeOf(r.Input(0)).Shape.Rank()
		list, given, ok := f.argument(r, "axes", 1)
		if !ok || !given || len(list) == 0 || rank < 0 || r.Int("keepdims", 1) != 1 {
			return false
		}
		axes := slices.Clone(list)
		for k, a := range axes {
			if a < 0 {
				axes[k] = a + int64(rank)
			}
		}
		slices.Sort(axes)
		if i > 0 && !slices.Equal(axes, f.axes) {
			return false
		}
		f.axes = axes
	}
	return true
}

func plain(f *found) ([]graph.Attr, []graph.ValueID, bool) {
	return nil, []graph.ValueID{f.data()}, true
}

func gelu(form string) func(*found) ([]graph.Attr, []graph.ValueID, bool) {
	return func(f *found) ([]graph.Attr, []graph.ValueID, bool) {
		return []graph.Attr{{Name: "approximate", Value: form}}, []graph.ValueID{f.data()}, true
	}
}

// hardSwish: the operator has fixed numbers, x·max(0, min(1, x/6 + 1/2)).
func hardSwish(f *found) ([]graph.Attr, []graph.ValueID, bool) {
	h := f.Maker(f.Named("h"))
	const sixth = float32(1) / 6
	near := h.Float("alpha", 0.2)-sixth < 1e-7 && sixth-h.Float("alpha", 0.2) < 1e-7
	return nil, []graph.ValueID{f.data()}, near && h.Float("beta", 0.5) == 0.5
}

// softmax is over one axis.
func softmax(f *found) ([]graph.Attr, []graph.ValueID, bool) {
	if len(f.axes) != 1 {
		return nil, nil, false
	}
	return []graph.Attr{{Name: "axis", Value: f.axes[0]}}, []graph.ValueID{f.data()}, true
}

// normAttrs is for norms over the last axes of their input in float32, whose scales, and shifts, have
// the dims of these axes.
func normAttrs(names ...string) func(*found) ([]graph.Attr, []graph.ValueID, bool) {
	return func(f *found) ([]graph.Attr, []graph.ValueID, bool) {
		in := make([]graph.ValueID, len(names))
		for i, name := range names {
			in[i] = f.Named(name)
		}
		t := f.typeOf(in[0])
		rank := t.Shape.Rank()
		if t.DType != graph.Float32 || len(f.axes) == 0 || int(f.axes[0]) != rank-len(f.axes) ||
			int(f.axes[len(f.axes)-1]) != rank-1 {
			return nil, nil, false
		}
		for _, v := range in[1:] {
			if w := f.typeOf(v); w.DType != t.DType || !sameShape(w.Shape, graph.Dims(t.Shape.Dims[f.axes[0]:]...)) {
				return nil, nil, false
			}
		}
		epsilon, ok := pattern.Number(f.G, f.Named("eps"))
		return []graph.Attr{{Name: "axis", Value: -int64(len(f.axes))}, {Name: "epsilon", Value: float32(epsilon)}},
			in, ok && epsilon >= 0
	}
}
