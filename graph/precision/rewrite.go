package precision

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
	"memopt/internal/half"
	"memopt/internal/memlimit"
	"memopt/symbolic"
)

// Group is nodes that together are one operator, and have one width.
type Group struct {
	Nodes  []*graph.Node
	Widths op.Widths
}

// Rewritten says how the nodes of a model compute after Rewrite.
type Rewritten struct {
	Half         graph.DType // of 16 bits
	Narrow, Wide int         // nodes that compute floats in 16 bits, and in float32
	Casts        int         // added nodes
	Weights      int         // of 16 bits, with BF16Pure
}

// Needs returns the operator set that a model has to import so that its nodes may have the types of a precision, and
// its updates the rounding.
func Needs(m *graph.Model, p Precision) int64 {
	version := int64(leastSet)
	if p == BF16Pure {
		version = op.StochasticSince
	}
	if p.Half() == graph.BFloat16 {
		for _, n := range m.Graph.Nodes {
			if graph.CanonicalDomain(n.Domain) == "" && op.WidthsOf(n.Kind) != op.Wide {
				version = max(version, op.BFloat16Since(n.Kind))
			}
		}
	}
	return max(version, m.OpsetVersion(""))
}

// leastSet is the operator set whose norms take statistics of another type than their input.
const leastSet = 17

// Rewrite has the nodes of a forward model compute in a type of 16 bits where the operator's row allows it
// (op.WidthsOf) and the choice takes the fewest bytes, and adds the casts in between. A product computes in 16 bits, a
// softmax, a loss or a sum in float32, and a node that may do either as a minimum cut of the bytes of all values has
// it. Graph inputs, initializers and outputs keep their types; with BF16Pure, weights become bfloat16, but for those
// that subgraphs read.
//
// A value that no weight reaches is computed in float32, for example the sines of positions. It stays float32 together
// with its first readers that may be so where 16 bits do not hold it well: it is computed from integers, or from a
// constant that is infinite or not normal in 16 bits, such as the -3.4e38 of a mask.
//
// Sizes count 64 for each symbol, so that the result does not depend on a binding. Kinds of operators must be bound and
// types inferred; the model must import the operator set of Needs. The types of the result are to be inferred anew.
func Rewrite(m *graph.Model, p Precision, weight func(graph.ValueID) bool, groups []Group) (*Rewritten, error) {
	order, err := graph.Topological(m.Graph)
	if err != nil {
		return nil, err
	}
	r := &rewrite{g: m.Graph, opsets: m.Opsets, low: p.Half(), unit: make([]int, len(m.Graph.Nodes)),
		out: &Rewritten{Half: p.Half()}}
	r.unitsOf(groups)
	r.restrict(order, weight)
	r.traffic(func(v graph.ValueID) bool { return p == BF16Pure && weight(v) })
	half := r.solve()
	r.names = graph.NewNames(m)
	r.apply(half)
	return r.out, r.names.Verify(m)
}

// rewrite is a model in the making.
type rewrite struct {
	choice
	g      *graph.Graph
	opsets []graph.Opset
	low    graph.DType
	unit   []int // by node
	names  *graph.Names
	out    *Rewritten

	captured map[graph.ValueID]bool // subgraphs read the value

	value []graph.ValueID                 // by traffic
	after map[graph.NodeID][]*graph.Node  // casts of outputs
	ahead map[graph.NodeID][]*graph.Node  // casts of values that no node makes
	wide  map[graph.ValueID]graph.ValueID // of values that became narrow: their float32
	lower map[graph.ValueID]graph.ValueID // of values in float32: their 16 bits
}

// unitsOf gives each node a unit, and those of a group one.
func (r *rewrite) unitsOf(groups []Group) {
	for i := range r.unit {
		r.unit[i] = none
	}
	add := func(w op.Widths, nodes ...*graph.Node) {
		for _, n := range nodes {
			if r.unit[n.ID] != none {
				return // of a group that came first
			}
		}
		for _, n := range nodes {
			r.unit[n.ID] = len(r.units)
		}
		r.units = append(r.units, w)
	}
	for _, g := range groups {
		add(g.Widths, g.Nodes...)
	}
	for _, n := range r.g.Nodes {
		add(r.ownWidths(n), n)
	}
}

// ownWidths are the widths of a node without its neighbours. Only float32 becomes narrow.
func (r *rewrite) ownWidths(n *graph.Node) op.Widths {
	if n.Fault() != nil || n.Clash() != nil {
		return op.Wide
	}
	for slot, v := range n.Inputs {
		if v != graph.NoValue && op.InputWidth(n, r.opsets, slot) && !r.isFloat(v) {
			return op.Wide
		}
	}
	return op.WidthsOf(n.Kind)
}

// isFloat reports whether a value is a float32 tensor.
func (r *rewrite) isFloat(v graph.ValueID) bool {
	t := r.g.Values[v].Type
	return t.Form == graph.FormTensor && t.DType == graph.Float32
}

// restrict keeps in float32 the nodes that no weight reaches, and those that read a value that 16 bits do not hold
// well.
func (r *rewrite) restrict(order graph.Order, weight func(graph.ValueID) bool) {
	reached, unfit := make([]bool, len(r.g.Values)), make([]bool, len(r.g.Values))
	for v := range r.g.Values {
		reached[v] = weight(graph.ValueID(v))
		unfit[v] = !reached[v] && r.isUnfit(graph.ValueID(v))
	}
	for _, id := range order {
		n := r.g.Nodes[id]
		from, bad := false, false
		for slot, v := range n.Inputs {
			if v != graph.NoValue {
				from = from || reached[v]
				bad = bad || unfit[v] && (op.InputWidth(n, r.opsets, slot) || op.Of(n.Kind).Has(op.CastRole))
			}
		}
		for _, v := range n.Captures() {
			from, bad = from || reached[v], bad || unfit[v]
		}
		if w := &r.units[r.unit[id]]; !from || bad && *w == op.Either {
			*w = op.Wide
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				reached[v], unfit[v] = from, !from && (bad || r.isUnfit(v))
			}
		}
	}
}

// isUnfit reports whether a value is of integers of more than 8 bits, or a constant with a number that is infinite or
// not normal in 16 bits.
func (r *rewrite) isUnfit(v graph.ValueID) bool {
	val := &r.g.Values[v]
	if d := val.Type.DType; d.IsInteger() {
		return d.Bits() > 8
	}
	if !r.isFloat(v) {
		return false
	}
	data := val.Data
	if val.Def != graph.NoNode && op.Of(r.g.Nodes[val.Def].Kind).Has(op.ConstantRole) {
		data = r.g.Nodes[val.Def].TensorAttr("value")
	} else if !val.IsConstant() {
		return false
	}
	if data == nil {
		x, ok := pattern.Number(r.g, v)
		return ok && !r.holds(x)
	}
	all, err := data.Float64s()
	return err != nil || slices.ContainsFunc(all, func(x float64) bool { return !r.holds(x) })
}

// holds reports whether 16 bits hold a number as a normal one. They hold zero and infinities.
func (r *rewrite) holds(x float64) bool {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return true
	}
	y, least := float64(half.BFloat16From(float32(x)).Float32()), 0x1p-126
	if r.low == graph.Float16 {
		y, least = float64(half.Float16From(float32(x)).Float32()), 0x1p-14
	}
	return !math.IsInf(y, 0) && math.Abs(y) >= least
}

// symbolSize is the size that a symbol, and a dim that is not known, counts.
const symbolSize = 64

// elements is the number of elements of a value as they count.
func (r *rewrite) elements(v graph.ValueID) int64 {
	shape, n := r.g.Values[v].Type.Shape, int64(1)
	if !shape.Ranked {
		return symbolSize
	}
	for _, d := range shape.Dims {
		env := symbolic.Env{}
		d.VisitSymbols(func(name string) { env[name] = symbolSize })
		x, err := d.Eval(env)
		if err != nil {
			x = symbolSize
		}
		n = min(n*max(0, min(x, mostElements)), mostElements)
	}
	return n
}

// mostElements keeps sums of bytes below maxflow.Endless.
const mostElements = 1 << 32

// traffic lists the float32 values with their makers and readers, and chooses those that shall have 16 bits.
func (r *rewrite) traffic(pure func(graph.ValueID) bool) {
	uses := graph.NewUses(r.g)
	r.captured = map[graph.ValueID]bool{}
	for i := range r.g.Values {
		v := graph.ValueID(i)
		if !r.isFloat(v) || r.g.Values[v].Outer != graph.NoValue {
			continue
		}
		val := &r.g.Values[v]
		t := traffic{maker: none, outside: val.Output, elements: r.elements(v)}
		if val.Def != graph.NoNode && op.OutputWidth(r.g.Nodes[val.Def], r.opsets, int(val.DefSlot)) {
			t.maker = r.unit[val.Def]
		}
		for _, use := range uses.Of(v) {
			if r.readsShape(use.Node) {
				continue
			}
			r.captured[v] = r.captured[v] || use.Slot == graph.Captured
			if use.Slot == graph.Captured || !op.InputWidth(r.g.Nodes[use.Node], r.opsets, int(use.Slot)) {
				t.outside = true
			} else {
				t.readers = append(t.readers, r.unit[use.Node])
			}
		}
		t.low = pure(v) && val.Def == graph.NoNode && !val.Output && !r.captured[v]
		r.values, r.value = append(r.values, t), append(r.value, v)
	}
}

// readsShape reports whether a node reads the shapes of its inputs alone, which have no width.
func (r *rewrite) readsShape(n graph.NodeID) bool { return op.Of(r.g.Nodes[n].Kind).Has(op.ShapeOf) }

// apply gives values their types and adds the casts.
func (r *rewrite) apply(half []bool) {
	r.after, r.ahead = map[graph.NodeID][]*graph.Node{}, map[graph.NodeID][]*graph.Node{}
	r.wide, r.lower = map[graph.ValueID]graph.ValueID{}, map[graph.ValueID]graph.ValueID{}
	floats := make([]bool, len(r.g.Nodes))
	for i := range r.values {
		v, t := r.value[i], &r.values[i]
		made := t.made(half)
		wide, low := t.wanted(half)
		switch {
		case t.low:
			r.shorten(v, wide, half)
		case made && wide:
			r.raise(v)
		case made:
			r.retype(v)
		case low:
			r.lowered(v, half)
		}
	}
	for _, n := range r.g.Nodes {
		narrow := half[r.unit[n.ID]]
		for slot, v := range n.Inputs {
			if v == graph.NoValue || r.readsShape(n.ID) {
				continue
			}
			follows := op.InputWidth(n, r.opsets, slot)
			floats[n.ID] = floats[n.ID] || follows && (r.isFloat(v) || r.g.Values[v].Type.DType == r.low)
			if w, ok := r.wide[v]; ok && !(narrow && follows) {
				n.Inputs[slot] = w
			} else if l, ok := r.lower[v]; ok && narrow && follows {
				n.Inputs[slot] = l
			}
		}
		switch {
		case narrow && floats[n.ID]:
			r.out.Narrow++
		case floats[n.ID]:
			r.out.Wide++
		}
	}
	var nodes []*graph.Node
	for _, n := range r.g.Nodes {
		nodes = append(append(append(nodes, r.ahead[n.ID]...), n), r.after[n.ID]...)
	}
	r.g.SetNodes(nodes)
}

// retype makes a value one of 16 bits.
func (r *rewrite) retype(v graph.ValueID) {
	r.g.Values[v].Type.DType = r.low
	for i := range r.g.ValueInfo {
		if d := &r.g.ValueInfo[i]; d.Value == v {
			d.Type.DType, d.Wire = r.low, nil
		}
	}
}

// shorten makes a weight one of 16 bits, and its copy in float32 ahead of the first reader where one needs that.
func (r *rewrite) shorten(v graph.ValueID, wide bool, half []bool) {
	r.retype(v)
	for i := range r.g.Inputs {
		if d := &r.g.Inputs[i]; d.Value == v {
			d.Type.DType, d.Wire = r.low, nil
		}
	}
	val := &r.g.Values[v]
	if val.Data != nil && val.Data.Source != nil {
		short := *val.Data
		short.DType, short.Source, short.External, short.Wire = r.low, rounded{val.Data}, nil, nil
		val.Data = &short
	}
	if r.out.Weights++; !wide {
		return
	}
	w := r.copyOf(v, graph.Float32)
	r.wide[v] = w
	for _, n := range r.g.Nodes {
		for slot, x := range n.Inputs {
			if x == v && !r.readsShape(n.ID) && !(half[r.unit[n.ID]] && op.InputWidth(n, r.opsets, slot)) {
				r.cast(&r.ahead, n.ID, v, w, graph.Float32)
				return
			}
		}
	}
}

// rounded has the contents of a float32 tensor in bfloat16, each rounded to the nearest.
type rounded struct{ of *graph.TensorData }

// Bytes returns the contents.
func (r rounded) Bytes() ([]byte, error) {
	raw, err := r.of.Source.Bytes()
	if err != nil {
		return nil, err
	}
	if err := memlimit.Check(int64(len(raw)/2), "initializer %q in bfloat16", r.of.Name); err != nil {
		return nil, err
	}
	out := make([]byte, len(raw)/2)
	for i := range len(raw) / 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		binary.LittleEndian.PutUint16(out[2*i:], uint16(half.BFloat16From(x)))
	}
	return out, nil
}

// raise makes a value one of 16 bits that some readers need in float32. Outputs of the graph, and values that subgraphs
// read, keep their names.
func (r *rewrite) raise(v graph.ValueID) {
	val := r.g.Values[v]
	if !val.Output && !r.captured[v] {
		w := r.copyOf(v, graph.Float32)
		r.retype(v)
		r.wide[v] = w
		r.cast(&r.after, val.Def, v, w, graph.Float32)
		return
	}
	n := r.g.Nodes[val.Def]
	l := r.copyOf(v, r.low)
	n.Outputs[val.DefSlot] = l
	r.lower[v] = l
	r.cast(&r.after, val.Def, l, v, graph.Float32)
}

// lowered makes the copy in 16 bits of a value in float32: behind its maker, or ahead of its first reader.
func (r *rewrite) lowered(v graph.ValueID, half []bool) {
	val := &r.g.Values[v]
	l := r.copyOf(v, r.low)
	r.lower[v] = l
	if val.Def != graph.NoNode {
		r.cast(&r.after, val.Def, v, l, r.low)
		return
	}
	for _, n := range r.g.Nodes {
		if half[r.unit[n.ID]] && slices.Contains(n.Inputs, v) {
			r.cast(&r.ahead, n.ID, v, l, r.low)
			return
		}
	}
}

// copyOf makes a value like another, of another type.
func (r *rewrite) copyOf(v graph.ValueID, d graph.DType) graph.ValueID {
	out := r.g.Value(r.names.Value(fmt.Sprintf("%s_%s", r.g.ValueName(v), d)))
	t := r.g.Values[v].Type
	t.DType = d
	r.g.Values[out].Type = t
	return out
}

// cast adds a node beside another.
func (r *rewrite) cast(list *map[graph.NodeID][]*graph.Node, beside graph.NodeID, from, to graph.ValueID,
	d graph.DType) {
	n := &graph.Node{Name: r.names.Node(r.g.ValueName(to) + "/Cast"), Op: castName, Kind: op.Lookup("", castName),
		Inputs: []graph.ValueID{from}, Outputs: []graph.ValueID{to}, Attrs: []graph.Attr{{Name: "to", Value: int64(d)}}}
	n.InheritStages(r.g.Nodes[beside])
	(*list)[beside] = append((*list)[beside], n)
	r.out.Casts++
}

// castName is the operator that converts.
const castName = "Cast"
